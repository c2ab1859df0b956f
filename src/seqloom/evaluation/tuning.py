"""Finds the weight, number and temperature of neighbors that predict a text best, by trying all values of a grid.

    loss(k, λ, τ) = -(1/N) Σ ln (λ p_kNN(token; k, τ) + (1 - λ) p_LM(token))          `seqloom.retrieval.neighbors`

The text is read once and the store searched once, for the largest k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import torch
from torch.nn.functional import cross_entropy

from seqloom.core.arguments import count
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, progress
from seqloom.core.rest import Rest
from seqloom.data.tokens import Tokens
from seqloom.data.windows import held_out
from seqloom.evaluation.scores import require_logits, require_tokens, widen_logits
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.search import Kind
from seqloom.retrieval.store import Mix, Store


@final
@dataclass(frozen=True)
class Tuned:
    """The losses of a grid, in nats per token."""

    plain: float
    """of the model alone"""
    losses: dict[Mix, float]

    @property
    def best(self) -> Mix:
        """The settings of the smallest loss; the first of equal ones."""
        return min(self.losses, key=self.losses.__getitem__)


def tune(
    model: Model,
    store: Store,
    tokens: Tokens,
    *,
    ks: Sequence[int],
    weights: Sequence[float],
    temperatures: Sequence[float],
    batch: int = 64,
    search: Kind | None = None,
    show: Show = progress,
) -> Tuned:
    """The loss of `tokens` for each k, λ and τ. ValueError for values out of range, and for a k above the store."""
    require_generates(model, "predict the next token")
    require_tokens(tokens, model.config.vocab)
    count("batch", batch, least=1)
    grid = [read(Mix, {"k": k, "weight": w, "temperature": t}) for t, k, w in product(temperatures, ks, weights)]
    if not grid:
        raise ValueError("the grid is empty: give at least one k, one weight and one temperature")
    largest = max(ks)
    context = model.config.context
    require_logits(model, batch, context)
    sums = dict.fromkeys(grid, 0.0)
    plain = 0.0
    with (
        Neighbors(model, store, Mix(k=largest), search) as neighbors,
        Rest(model),
        show("predicting", len(tokens), "tokens") as advance,
    ):
        for inputs, targets, keep in held_out(tokens, context, batch):
            logits = widen_logits(model(inputs.to(model.device))).transpose(1, 2)
            nats = cross_entropy(logits, targets.to(model.device), reduction="none").cpu()[keep].double()
            distances, numbers = neighbors.nearest(keep, largest)
            hits = neighbors.following_tokens(numbers) == targets[keep][:, None]
            plain += float(nats.sum())
            for temperature in temperatures:
                # relative to the nearest, so that none of the sums is 0
                relative = torch.exp((distances[:, :1] - distances).double().nan_to_num(-torch.inf) / temperature)
                shares = torch.where(hits, relative, 0.0).cumsum(1) / relative.cumsum(1).clamp(min=1e-300)
                for k, weight in product(ks, weights):
                    p = weight * shares[:, k - 1] + (1 - weight) * torch.exp(-nats)
                    sums[Mix(k=k, weight=weight, temperature=temperature)] -= float(p.log().sum())
            advance(int(keep.sum()))
    return Tuned(plain / len(tokens), {mix: total / len(tokens) for mix, total in sums.items()})
