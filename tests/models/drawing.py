"""Small decoders in float64 in which every parameter, norms and biases too, is large enough to have an effect."""

from typing import Any

import torch
from torch import Tensor

from seqloom.models.decoder import Decoder, DecoderConfig

VOCAB, DIM, DEPTH, CONTEXT = 13, 8, 2, 6
KINDS = ("attention", "she", "he", "we", "me")


def decoder(kind: str | dict[str, Any] | list[dict[str, Any]], **settings: Any) -> Decoder:
    mixer = {"kind": kind} if isinstance(kind, str) else kind
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": DEPTH, "context": CONTEXT, "ffn": 20, "dropout": 0.0}
    model = Decoder(DecoderConfig(**{**sizes, "mixer": mixer, **settings})).double()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4)
    return model.eval()


def ids(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(seed))
