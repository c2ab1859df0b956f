"""What a classifier is trained on: windows of a text, as a model reads them with all layers."""

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.model import Model
from seqloom.depth.classifier import Seen


@torch.no_grad()
def seen(model: Model, ids: Int[Tensor, "B T+1"]) -> Seen:
    """The streams of all layers over windows, and what each of them predicts; one layer's logits at a time."""
    streams, _ = model.exits(ids[:, :-1])
    likeliest = torch.stack([model.exit_logits(x, layer).argmax(-1) for layer, x in enumerate(streams, 1)], -1)
    return Seen(streams, likeliest == likeliest[..., -1:])
