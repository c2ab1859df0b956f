"""What a training needs of each of its processes: memory by part, and the bytes that it sends in a step.

    R ranks, of which S share the weights (R with fsdp, those of a machine with hybrid, 1 without), and M = R / S have
    the same part = ⌈rows / S⌉ rows of every weight

    weights, gradients         one number a parameter each, of the part
    optimizer                  AdamW two, Muon one, of the part
    gathered                   with S > 1: the weights around the layers and of two layers at a time, whole
    summed                     with S = 1 < R: a flat copy of all gradients, while they are summed
    activations, logits        `live_bytes.count_pass`

    sent, S = 1                2 (R-1)/R of all gradients                                     once a step
    sent, S > 1                (S-1) parts: the weights, in forward and backward; gradients     a micro-batch
                               2 (M-1)/M of a part: the gradients                             a micro-batch

Bytes sent are those of rings, which send the least: a network or a library may send more. Everything is counted on
modules without values.

Source: Patarasuk and Yuan, 2009, doi:10.1016/j.jpdc.2008.09.002 (rings); Zhao et al., arXiv:2304.11277 (shards).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from seqloom.core.without_values import without_values
from seqloom.training.config import RunConfig, TrainConfig
from seqloom.training.distributed import require_even
from seqloom.training.live_bytes import count_pass
from seqloom.training.memory import logits
from seqloom.training.optimizers import matrices_of
from seqloom.training.sharding import layers

GRADIENT_BYTES = 4
"""of a number that is summed over processes where weights are gathered in bf16"""


@final
@dataclass(frozen=True)
class Ranks:
    """The processes of a training: `size` in all, `local` on each machine, which have a device each."""

    size: int
    local: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.local < 1:
            raise ValueError(f"the processes must be at least 1, not {min(self.size, self.local)}")
        if self.size > self.local and self.size % self.local:
            raise ValueError(f"{self.size} GPUs are no whole number of machines of {self.local}: choose another number")

    def sharing(self, training: TrainConfig) -> int:
        """How many share the weights."""
        return {"none": 1, "fsdp": self.size, "hybrid": min(self.local, self.size)}[training.shard]


@final
@dataclass(frozen=True)
class Footprint:
    """Bytes of one process, and what a step of all of them computes; `at_once` is the most at any time."""

    parameters: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    gathered: int
    summed: int
    at_once: int
    sent: int
    """bytes that a process sends in a step"""
    tokens: int
    """tokens of a step of all processes"""
    operations: int
    """arithmetic operations of the model in a step of all processes, the backward taken as two forwards"""


def footprint(config: RunConfig, ranks: Ranks, device: str = "cuda") -> Footprint:
    """The footprint of a training on a `device` for each process.

    ValueError for a model without gradients, for adapters, and where the rows of a step are not shared evenly.
    """
    training = config.training
    if config.model.fits:
        raise ValueError(f"a model of kind {config.model.kind} is fitted without gradients: it has no such plan")
    if training.lora.rank:
        raise ValueError("a plan counts all weights as trained: leave training.lora out")
    if training.sequence > 1:
        raise ValueError("a plan is of processes that read whole rows: leave training.sequence out")
    if training.objective.untimed:
        raise ValueError(f"this training has no plan: {training.objective.untimed}")
    require_even(training, ranks.size)
    rows = training.batch // training.accumulate // ranks.size
    sharing = ranks.sharing(training)
    with without_values():
        model: Any = config.model.build()
    shapes = _Shapes(model, training, sharing)
    needed = count_pass(config, rows, ranks.size)
    tokens = rows * math.ceil(config.model.context / training.pieces)
    of_logits = logits(config.model, training, tokens, device)
    activations = needed.without_gradients - logits(config.model, training, tokens)
    gathered = shapes.gathered if sharing > 1 else 0
    summed = shapes.whole if sharing == 1 < ranks.size else 0
    if sharing > 1:
        before = shapes.part if training.accumulate > 1 else 0
        most = max(before + activations + of_logits + gathered, shapes.part + gathered + shapes.returned)
    elif training.accumulate > 1:
        most = shapes.part + max(activations + of_logits, summed)
    else:
        most = max(needed.with_gradients - needed.without_gradients + activations + of_logits, shapes.part + summed)
    return Footprint(
        parameters=shapes.numbers,
        weights=shapes.part,
        gradients=shapes.part,
        optimizer=shapes.optimizer,
        activations=activations,
        logits=of_logits,
        gathered=gathered,
        summed=summed,
        at_once=(0 if training.offload else shapes.part + shapes.optimizer) + most,
        sent=_count_sent(shapes, training, sharing, ranks.size),
        tokens=training.batch * config.model.context,
        operations=3 * training.batch * model.cost(config.model.context).total,
    )


@final
class _Shapes:
    """Bytes of the weights of a model, whole and of the process that has the largest part."""

    def __init__(self, model: Any, training: TrainConfig, sharing: int) -> None:
        named = dict(model.named_parameters())
        width = training.dtype.itemsize
        matrices = matrices_of(model) if training.optimizer == "muon" else frozenset()
        parts = {name: _part(parameter, sharing) for name, parameter in named.items()}
        self.count = len(named)
        self.width = width
        self.numbers = sum(parameter.numel() for parameter in named.values())
        self.whole = width * self.numbers
        self.part = width * sum(parts.values())
        averages = sum((1 if name in matrices else 2) * numbers for name, numbers in parts.items())
        self.optimizer = width * averages + 4 * (len(named) - len(matrices))  # AdamW counts the steps of each
        of_layers = [_numbers(layer.parameters()) for layer in layers(model)]
        around = self.numbers - sum(of_layers)
        units = around + sum(sorted(of_layers)[-2:])
        whole_weights = units if training.reshard else self.numbers
        gathered_width = 2 if training.policy == "weights" else width
        self.gathered = gathered_width * whole_weights
        self.returned = width * units
        """gradients that are whole at the end of the backward, until they are summed"""
        self.muon = width * _numbers(named[name] for name in matrices)


def _count_sent(shapes: _Shapes, training: TrainConfig, sharing: int, size: int) -> int:
    """Bytes that a process sends in a step."""
    if sharing == 1:
        flat = shapes.whole + shapes.count * shapes.width  # each gradient with a flag, whether it is there
        return round(2 * (size - 1) / size * flat)
    numbers = shapes.part // shapes.width
    gathered_width = 2 if training.policy == "weights" else shapes.width
    reduced_width = GRADIENT_BYTES if training.policy == "weights" else shapes.width
    gathers = 2 if training.reshard else 1
    within = (sharing - 1) * numbers * (gathers * gathered_width + reduced_width)
    copies = size // sharing
    across = 2 * (copies - 1) / copies * numbers * reduced_width
    of_muon = 2 * (sharing - 1) / sharing * shapes.muon  # a direction is gathered, and comes back from one rank
    return round(training.accumulate * (within + across) + of_muon)


def _part(parameter: Tensor, sharing: int) -> int:
    """Numbers that the first of the sharing processes has of a weight, which is cut along its first axis."""
    rows = parameter.shape[0] if parameter.ndim else 1
    return math.ceil(rows / sharing) * (parameter.numel() // max(rows, 1))


def _numbers(parameters: Iterable[nn.Parameter] | Sequence[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
