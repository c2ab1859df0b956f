"""Pseudo-likelihood: every held-out token predicted from all others of its window, one at a time.

    loss = -(1/N) Σ_t ln p(token t | the window with the mask in place of t)                   nats a token

Windows are those of `seqloom.evaluation.scores`; a window of T tokens is read T times. The sum is no likelihood: it
compares encoders with one another, and texts under one of them.

Source: Salazar et al., Masked Language Model Scoring, arXiv:1910.14659, Eq. 2. Nothing differs.
"""

import torch
from torch.nn.functional import cross_entropy

from seqloom.core.arguments import count
from seqloom.core.model import Model
from seqloom.core.progress import Show, require_show, show_nothing
from seqloom.core.rest import Rest
from seqloom.data.tokens import Tokens
from seqloom.data.windows import held_out
from seqloom.evaluation.scores import Scores, require_tokens, sum_scores, widen_logits


def score_pseudo(model: Model, tokens: Tokens, *, batch: int = 64, show: Show = show_nothing) -> Scores:
    """Scores an encoder on tokens, `batch` masked copies of windows at a time; leaves it in its mode.

    The last entry of the model's vocabulary is the mask, as in training. `show` shows the progress.

    ValueError for a model that predicts the next token, whose likelihood `scores` gives, and for tokens of another
    vocabulary.
    """
    if model.config.causal or model.config.objective is not None:
        raise ValueError(
            f"a model of kind {model.config.kind} predicts no masked tokens: use one of model.kind=encoder"
        )
    mask = model.config.vocab - 1
    context = model.config.context
    require_tokens(tokens, mask)
    count("batch", batch, least=1)
    require_show(show)
    nats = torch.zeros(context, dtype=torch.float64)
    counts = torch.zeros(context, dtype=torch.float64)
    with Rest(model), show("scoring", len(tokens), "tokens") as advance:
        for _, ids, keep in held_out(tokens, context, 1):
            length = int(keep.sum())
            for positions in torch.arange(length).split(batch):
                copies = ids[:, :length].repeat(len(positions), 1)
                rows = torch.arange(len(positions))
                copies[rows, positions] = mask
                x = model.features(copies.to(model.device))
                logits = model.logits(x[rows.to(model.device), positions.to(model.device)][None])[0]
                loss = cross_entropy(widen_logits(logits).cpu(), ids[0, positions], reduction="none")
                nats[positions] += loss.double()
                counts[positions] += 1
                advance(len(positions))
    return sum_scores(nats, counts, tokens)
