"""What `seqloom list --backends` prints: how each op can be computed, what of that runs here, and what is chosen."""

from collections.abc import Iterator

import torch

from seqloom.core.table import table
from seqloom.ops import backends as chooser
from seqloom.ops.lag_sum import choice
from seqloom.ops.lag_sum.crossovers import PLACE, read
from seqloom.ops.op import CHANNELS, Op

SIZES = ((1, 1), (1, 32), (8, 32), (8, 1024))
"""batch and tokens that each op is asked at"""
NAMES = ("tokens", "lags", "channels", "rows")
"""the sizes that the lag sum chooses by, in the order of `choice.Sizes`"""


def backends() -> str:
    """A table of every op's backends: whether each is available here, and at which sizes an op chooses it by itself.

    What is chosen is found by running each op on this machine's CPU, with gradients, at a few sizes; a size is at two
    backends where it depends on the kind of weights too. Below it, the lag sum's choice at all
    sizes.
    """
    rows = []
    for name, op in sorted(chooser.ops().items()):
        lacking, chosen = op.lacking(), _chosen(op)
        for backend in op.backends:
            rows.append((name, backend, lacking.get(backend, "yes"), ", ".join(chosen.get(backend, [])) or None))
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
