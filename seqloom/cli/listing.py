"""What `seqloom list --backends` prints: how each op can be computed, what of that runs here, and what is chosen."""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.table import table
from seqloom.ops import backends as chooser
from seqloom.ops.attention import attend
from seqloom.ops.biased_average import average
from seqloom.ops.diagonal_states import filtered
from seqloom.ops.lag_sum import lags
from seqloom.ops.linear_decay import decay
from seqloom.ops.random_features import positive
from seqloom.ops.recurrence import elman
from seqloom.ops.scans import scan
from seqloom.ops.selective_scan import selective
from seqloom.ops.state_space import joint
from seqloom.ops.wkv_average import wkv

SIZES = ((1, 1), (1, 32), (8, 32), (8, 1024))
"""batch and tokens that each op is asked at"""
CHANNELS = 32


def _heads(x: Tensor) -> Tensor:
    return x.unflatten(2, (4, 8)).transpose(1, 2)


def _complex(x: Tensor, N: int) -> Tensor:
    return torch.zeros(CHANNELS, N, dtype=torch.complex64, device=x.device)


CALLS: dict[str, list[Callable[[Tensor], object]]] = {
    "attention": [lambda x: attend(_heads(x), _heads(x), _heads(x))],
    "biased_average": [lambda x: average(x[:, :, :4], x, x.new_zeros(1, 1, 32, 4))],
    "diagonal_states": [lambda x: filtered(x, lambda: (_complex(x, 32) - 1, _complex(x, 32)))],
    "lag_sum": [lambda x: lags(x, x.new_zeros(x.shape[1], CHANNELS)), lambda x: lags(x, x.new_zeros(x.shape[1]))],
    "linear_decay": [lambda x: decay(_heads(x), _heads(x), _heads(x))],
    "random_features": [lambda x: positive(_heads(x), _heads(x))],
    "recurrence": [lambda x: elman(x, x.new_zeros(32, 32), x.new_zeros(32), x.new_zeros(32, 32), x[:, 0])],
    "scans": [lambda x: scan(x.tanh(), x)],
    "selective_scan": [lambda x: selective(x, x.exp(), x.new_zeros(32, 16), x[:, :, :16], x[:, :, :16])],
    "state_space": [lambda x: joint(x, lambda: tuple(map(x.new_zeros, ((8, 8), (8, 32), (32, 8), ()))), "bilinear")],
    "wkv_average": [lambda x: wkv(x, x)],
}


def backends() -> str:
    """A table of every op's backends: whether each is available here, and at which sizes an op chooses it by itself.

    What is chosen is found by running each op on this machine's CPU, with gradients, at a few sizes; a size is at two
    backends where it depends on the kind of weights too. Forgets what ran before (`seqloom.ops.backends.used`).
    """
    rows = []
    for op, names in sorted(chooser.known().items()):
        lacking, chosen = chooser.lacking(op), _chosen(op)
        asked = None if op in CALLS else "not asked"
        rows += [(op, name, lacking.get(name, "yes"), ", ".join(chosen.get(name, [])) or asked) for name in names]
    head = ("op", "backend", "available here", f"chosen at batch x tokens, {CHANNELS} channels")
    return table(head, rows)


def _chosen(op: str) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for B, T in SIZES:
        chooser.forget()
        for call in CALLS.get(op, []):
            call(torch.zeros(B, T, CHANNELS, requires_grad=True))
        for name in chooser.used().get(op, []):
            chosen.setdefault(name, []).append(f"{B} x {T}")
    chooser.forget()
    return chosen
