"""Small decoders around every mixer that streams, in float64, whose logits depend on what they read."""

from typing import Any

import torch

import seqloom
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder

CONTEXT = 32
STREAMING = [kind for kind, config in kinds().items() if config.traits.causal != "never" and config.traits.streams]


def settings_of(kind: str) -> dict[str, Any]:
    """The mixer with the settings of its first example."""
    return {"kind": kind, **kinds()[kind].examples[0]}


def decoder_of(kind: str, depth: int = 2) -> Decoder:
    """Layers of 16 channels, without positions but those of the mixer."""
    sizes = {"vocab": 31, "dim": 16, "depth": depth, "context": CONTEXT}
    model = seqloom.decoder([settings_of(kind)], position="none", **sizes).double().eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    for mixer in model.mixers:
        mixer.rebuild()
    return model
