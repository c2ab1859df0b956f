"""Small decoders around every mixer that streams, in float64, whose logits depend on what they read."""

import torch

import seqloom
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder

CONTEXT = 32
STREAMING = [kind for kind, config in kinds().items() if config.traits.causal != "never" and config.traits.streams]


def decoder_of(kind: str) -> Decoder:
    """Two layers of 16 channels, without positions but those of the mixer."""
    settings = {"kind": kind, **kinds()[kind].examples[0]}
    model = seqloom.decoder([settings], vocab=31, dim=16, depth=2, context=CONTEXT, position="none").double().eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    for mixer in model.mixers:
        mixer.rebuild()
    return model
