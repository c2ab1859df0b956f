"""What a classifier is trained on: windows of a text, as a model reads them with all layers."""

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.model import Model
from seqloom.depth.classifier import Seen


@torch.no_grad()
def seen(model: Model, ids: Int[Tensor, "B T+1"]) -> Seen:
    """The streams of all layers over windows, and what each of them predicts; one layer's logits at a time."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    streams, _ = model.exits(inputs)
    likeliest, likelihoods = [], []
    for layer, x in enumerate(streams, 1):
        logits = model.exit_logits(x, layer)
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        likeliest.append(logits.argmax(-1))
        likelihoods.append(log_p.gather(-1, targets[..., None])[..., 0])
    found = torch.stack(likeliest, -1)
    return Seen(streams, found == found[..., -1:], found == targets[..., None], torch.stack(likelihoods, -1))
