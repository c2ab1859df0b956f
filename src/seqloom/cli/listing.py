"""What `seqloom list --backends` prints: how each op can be computed, what of that runs here, and what is chosen."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from seqloom.core.table import table
from seqloom.ops import backends as chooser
from seqloom.ops.attention import attend
from seqloom.ops.biased_average import average
from seqloom.ops.diagonal_states import filtered
from seqloom.ops.lag_sum import choice, lags
from seqloom.ops.lag_sum.crossovers import PLACE, read
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
NAMES = ("tokens", "lags", "channels", "rows")
"""the sizes that the lag sum chooses by, in the order of `choice.Sizes`"""


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
    backends where it depends on the kind of weights too. Below it, the lag sum's choice at all
    sizes.
    """
    rows = []
    for op, names in sorted(chooser.known().items()):
        lacking, chosen = chooser.lacking(op), _chosen(op)
        asked = None if op in CALLS else "not asked"
        rows += [(op, name, lacking.get(name, "yes"), ", ".join(chosen.get(name, [])) or asked) for name in names]
    head = ("op", "backend", "available here", f"chosen at batch x tokens, {CHANNELS} channels")
    return f"{table(head, rows)}\n\n{crossovers()}"


def crossovers() -> str:
    """What the lag sum chooses on this machine's CPU, by the table in force: a line for each range of tokens."""
    place, origin = choice.place(), read(choice.place()).origin
    own = "the package's own" if place == str(PLACE) else place
    rows = [
        (taps, "training" if training else "reading", *line)
        for taps in choice.KINDS
        for training in (True, False)
        for line in _by_tokens(choice.tree_of(taps, training))
    ]
    head = ("taps", "for", NAMES[0], f"backend, by {', '.join(NAMES[1:])}")
    return f"lag_sum by its table, {own} ({', '.join(origin.values())}):\n{table(head, rows)}"


def _by_tokens(tree: choice.Tree) -> list[tuple[str, str]]:
    if isinstance(tree, str) or tree[0] != 0:
        return [("any", _written(tree))]
    return [(here, _written(part)) for here, part in _ranges(tree[1], tree[2])]


def _written(tree: choice.Tree) -> str:
    """As `fft`, or `lags to 8: direct, 9 on: (rows to 2: direct, 3 on: fft)`."""
    if isinstance(tree, str):
        return tree
    axis, bounds, parts = tree
    each = [(here, _written(part), isinstance(part, str)) for here, part in _ranges(bounds, parts)]
    return f"{NAMES[axis]} " + ", ".join(f"{here}: {text if alone else f'({text})'}" for here, text, alone in each)


def _ranges(bounds: tuple[int, ...], parts: tuple[choice.Tree, ...]) -> Iterator[tuple[str, choice.Tree]]:
    """Each part of a tree with the sizes that lead to it, in words."""
    for low, high, part in zip((0, *bounds), (*bounds, None), parts, strict=True):
        here = f"to {high}" if low == 0 else f"{low + 1} on" if high is None else f"{low + 1} to {high}"
        yield here, part


def _chosen(op: str) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for B, T in SIZES:
        with chooser.recorded() as ran:
            for call in CALLS.get(op, []):
                call(torch.zeros(B, T, CHANNELS, requires_grad=True))
        for name in ran.get(op, []):
            chosen.setdefault(name, []).append(f"{B} x {T}")
    return chosen
