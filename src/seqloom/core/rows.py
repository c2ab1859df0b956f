"""Rows of states that have read different numbers of tokens: side by side, alone, or in place of another row.

    stack([a, b])           the rows of a, then those of b
    take(state, rows)       these rows alone
    put(state, row, one)    the state with the only row of `one` at `row`; `state` itself is written into

An entry that grows has a slot for each token, and of several states the shorter ones get slots that are 0. This holds
for rings too: one wraps only when it is as long as it may be, so that a shorter one has its tokens in order.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.state import Tree, fill_state, flat, select


def stack(states: Sequence[Tree]) -> Tree:
    """The rows of all states, in order, in one. ValueError without a state, or where they are of different models."""
    if not states:
        raise ValueError("there is no state to stack: give at least one")
    entries = [flat(state) for state in states]
    for other in entries[1:]:
        _require_alike(entries[0], other)
    joined = {}
    for name in entries[0]:
        tensors = [entry[name] for entry in entries]
        joined[name] = torch.cat([_widen(tensor, _largest(tensors)) for tensor in tensors])
    return fill_state(states[0], joined)


def take(state: Tree, rows: Int[Tensor, " N"]) -> Tree:
    """A copy of some rows, with a bound of their own; `Model.trim` frees the slots that they leave unused."""
    taken = select(state, rows)
    return fill_state(taken, flat(taken))


def put(state: Tree, row: int, one: Tree) -> Tree:
    """The state with the only row of `one` at `row`; it takes over the tensors of `state`, which is not used again.

    ValueError where the states are of different models.
    """
    entries = flat(state)
    new = flat(one)
    _require_alike(entries, new)
    for name, tensor in entries.items():
        sizes = _largest([tensor, new[name]])
        entries[name] = _widen(tensor, sizes)
        entries[name][row] = _widen(new[name], sizes)[0]
    return fill_state(state, entries)


def _require_alike(entries: dict[str, Tensor], others: dict[str, Tensor]) -> None:
    """ValueError unless the entries have the same names, dtypes and sizes, but for the rows and one axis that grows."""
    if entries.keys() != others.keys():
        raise ValueError("the states are of different models: they have other entries")
    for name, tensor in entries.items():
        other = others[name]
        differing = [a for a, b in zip(tensor.shape[1:], other.shape[1:], strict=False) if a != b]
        if tensor.dtype != other.dtype or tensor.ndim != other.ndim or len(differing) > 1:
            raise ValueError(
                f"the states are of different models: {name} is {tuple(tensor.shape)}, {tuple(other.shape)}"
            )


def _largest(tensors: Sequence[Tensor]) -> list[int]:
    """The largest size of each axis but the first."""
    return [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]


def _widen(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    """The tensor (B, …) with zeros after its end, up to these sizes; itself where it has them."""
    missing = [size - have for size, have in zip(sizes, tensor.shape[1:], strict=True)]
    if not any(missing):
        return tensor
    return pad(tensor, [number for size in reversed(missing) for number in (0, size)])
