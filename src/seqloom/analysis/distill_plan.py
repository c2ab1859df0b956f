"""What a distillation would take, counted from settings alone: memory by part, operations of a token by stage.

memory       the model, the attention beside it, the new sublayers' gradients and the moments of AdamW (float32)
operations   the teacher's pass, the student's, and twice the student's for gradients that go back through it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from seqloom.models.config import TransformerConfig

BYTES = 4
"""of a number in float32"""


@final
@dataclass(frozen=True)
class DistillPlan:
    """Memory in bytes by part, and operations of a token by stage of the distillation."""

    memory: dict[str, int]
    operations: dict[str, float]


def plan(
    teacher: TransformerConfig, student: TransformerConfig, layers: Sequence[int], rows: int, context: int
) -> DistillPlan:
    """The plan for batches of `rows` rows of `context` tokens; no tensor has memory."""
    with torch.device("meta"):
        old, new = teacher.build(), student.build()
    weights = sum(parameter.numel() for parameter in new.parameters())
    attention = sum(parameter.numel() for number in layers for parameter in old.mixers[number].parameters())
    sublayers = [new.mixers[number] for number in layers]
    fresh = sum(parameter.numel() for sublayer in sublayers for parameter in sublayer.parameters())
    stream = rows * context * teacher.dim
    memory = {
        "the model, with new sublayers": BYTES * weights,
        "attention, beside them": BYTES * attention,
        "gradients and moments of the new sublayers": 3 * BYTES * fresh,
        "inputs and outputs of these layers (first stage)": 2 * BYTES * stream * len(layers),
        "gradients and moments of all others (last stage)": 3 * BYTES * (weights - fresh),
    }
    prices = {"teacher": old.cost(context), "student": new.cost(context)}
    whole = {name: (price.mul + price.add) / context for name, price in prices.items()}
    inside = sum((price.mul + price.add) / context for price in (sublayer.cost(context) for sublayer in sublayers))
    operations = {
        "sublayers": whole["teacher"] + 4 * inside,  # each is computed again in the backward
        "states": whole["teacher"] + 3 * whole["student"],
        "logits": whole["teacher"] + 3 * whole["student"],
        "loss": 3 * whole["student"],
    }
    return DistillPlan(memory, operations)
