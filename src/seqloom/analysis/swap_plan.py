"""What a swap would change, counted from settings alone: memory of a text, operations of a token, parameters.

Memory is that of the state after so many tokens of one row, in bf16, and the operations are those of the token after
them. Three models are compared: attention in all layers, the swap, and a window with the same layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from seqloom.models.config import TransformerConfig

LENGTHS = (2_048, 32_768, 131_072)
"""tokens of the text"""
WINDOW = 512
"""tokens of the window that the swapped layers are compared with"""
BYTES = 2
"""of a number in bf16"""


@final
@dataclass(frozen=True)
class PlannedModel:
    """One of the compared models."""

    title: str
    parameters: int
    state: tuple[int, ...]
    """bytes of the state after each of the lengths"""
    operations: tuple[int, ...]
    """multiplications and additions of the token after each of the lengths"""


def plan_model(title: str, config: TransformerConfig, lengths: Sequence[int] = LENGTHS) -> PlannedModel:
    """A model's memory and operations; its context is widened to the longest text, and no tensor has memory."""
    wide = config.model_copy(update={"context": max(config.context, *lengths)})
    with torch.device("meta"):
        model = wide.build()
    prices = [model.cost(length, "token") for length in lengths]
    return PlannedModel(
        title,
        sum(parameter.numel() for parameter in model.parameters()),
        tuple(BYTES * price.state for price in prices),
        tuple(price.mul + price.add for price in prices),
    )
