"""`seqloom list --backends`: the backends of every op, whether they run here, and which one is chosen."""

import torch

from seqloom.core.table import table
from seqloom.ops import backends as chooser
from seqloom.ops.op import CHANNELS, Op

SIZES = ((1, 1), (1, 32), (8, 32), (8, 1024))
"""batch and tokens that each op is asked at"""


def backends() -> str:
    """A table of every op's backends: whether each is available here, and at which sizes an op chooses it by itself.

    The choice is observed by running each op on this machine's CPU, with gradients, at a few sizes; a size is at two
    backends where it depends on the kind of weights too.
    """
    rows = []
    for name, op in sorted(chooser.ops().items()):
        lacking, chosen = op.lacking(), _chosen(op)
        for backend in op.backends:
            rows.append((name, backend, lacking.get(backend, "yes"), ", ".join(chosen.get(backend, [])) or None))
    head = ("op", "backend", "available here", f"chosen at batch x tokens, {CHANNELS} channels")
    return table(head, rows)


def _chosen(op: Op) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for B, T in SIZES:
        with chooser.recorded() as ran:
            for example in op.examples:
                example(_zeros, B, T)
        for name in ran.get(op.name, []):
            chosen.setdefault(name, []).append(f"{B} x {T}")
    return chosen


def _zeros(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, requires_grad=True)
