"""Weights that are drawn by the names of tensors, so that a recording need not hold them."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import torch
from torch import Tensor

IDS = torch.tensor([[1, 5, 0, 12, 7, 7, 3, 9, 2], [11, 4, 4, 8, 0, 6, 10, 1, 3]])
"""the text of a recording"""


def draw(shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """A tensor in float64 of each name and shape; gains and mixing shares lie around 1 and 0.5."""
    tensors = {}
    for name, shape in shapes.items():
        generator = torch.Generator().manual_seed(int.from_bytes(sha256(name.encode()).digest()[:4], "big"))
        scale = 0.3 if len(shape) < 2 else 0.3 + 0.5 * shape[-1] ** -0.5
        centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        tensors[name] = centre + scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return tensors
