"""The machine's limit for a run: from its fastest matrix products and its memory bandwidth.

    limit = max(operations / rate of a product of 2048 x 2048 matrices, bytes / rate of a copy of 256 MB)

The product uses the faster of torch's two libraries (`ops.projection`). Rows up to commit 012dbf6 used torch's default.

Operations are counted in the forward of the form that runs, and multiplied by three for forward and backward, as each
product has two more in its backward. Bytes are those that every form must move: inputs, weights and outputs once in the
forward; inputs, weights, the incoming gradient, and all gradients once in the backward. Data that fit in the
processor's cache move faster than a copy, so that a run can exceed 100%.
"""

from dataclasses import dataclass

import torch

from seqloom.analysis.measure import race
from seqloom.counting.count import count
from seqloom.ops.fused.projection import project

SIDE, COPIED = 2048, 2**26
"""rows of a matrix; float32 numbers of a copy"""


@dataclass(frozen=True)
class Rates:
    """Operations and bytes a second."""

    operations: float
    bytes: float

    def columns(self, operations: int, moved: int, seconds: float) -> dict[str, float]:
        """The part of a row that says how far a run of so many seconds is from the limit."""
        limit = max(operations / self.operations, moved / self.bytes)
        return {
            "operations": operations,
            "bytes": moved,
            "matmul_gflops": float(f"{self.operations / 1e9:.4g}"),
            "copy_gb_a_second": float(f"{self.bytes / 1e9:.4g}"),
            "percent_of_limit": float(f"{100 * limit / seconds:.3g}"),
        }


def rates(kind: torch.dtype = torch.float32, rounds: int = 7) -> Rates:
    """This machine's, measured now; a copy reads and writes."""
    a, b = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
    given, taken = torch.ones(COPIED), torch.empty(COPIED)
    times = race({"product": lambda: project(a, b), "copy": lambda: taken.copy_(given)}, rounds, warm=2)
    return Rates(2 * SIDE**3 / times["product"].median, 2 * 4 * COPIED / times["copy"].median)


def operations(run) -> int:
    """Of the forward and backward of `run()`, which is a forward, with gradients on."""
    return 3 * count(run).total


def of_sublayer(mixer, x) -> tuple[int, int]:
    """Operations and bytes of a forward and backward of a mixer over x (B, T, D), in its weights' number type."""
    weights = sum(weight.numel() for weight in mixer.parameters())
    return operations(lambda: mixer(x)), 4 * (5 * x.numel() + 3 * weights)


def of_step(model, ids) -> tuple[int, int]:
    """Of a training step of a decoder: weights are read twice, and written once with gradient and two averages read."""
    weights = sum(weight.numel() for weight in model.parameters())
    return operations(lambda: model(ids)), 4 * 9 * weights
