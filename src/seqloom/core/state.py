"""The memory of a mixer or a model between tokens: a flat dict of tensors, batch first.

Every state holds `seen` (B,), the number of tokens that each row has read. Whoever reads on gets a new dict; with
`reuse=False` the tensors of the old one stay bit for bit what they were.
"""

from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

State: TypeAlias = dict[str, Tensor]


def select(state: State, rows: Int[Tensor, " N"]) -> State:
    """The state of the given rows, copied: forks a row (repeat its index) or reorders rows (beam search)."""
    return {name: tensor.index_select(0, rows) for name, tensor in state.items()}


def within(state: State, prefix: str) -> State:
    """The part of a model's state under `prefix.`, with the prefix taken off: what one layer's mixer knows."""
    return {name.removeprefix(prefix + "."): tensor for name, tensor in state.items() if name.startswith(prefix + ".")}


def under(state: State, prefix: str) -> State:
    """The same state with `prefix.` before each name: a layer's state as part of its model's."""
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def check(state: State, batch: int) -> None:
    """Raises ValueError unless `state` was made for `batch` rows."""
    if "seen" not in state:
        raise ValueError("this is no state: it has no 'seen'; begin with start(batch)")
    if len(state["seen"]) != batch:
        raise ValueError(
            f"the state is of {len(state['seen'])} rows, the input of {batch}; make it with start({batch}) "
            "or choose rows with seqloom.core.state.select"
        )


def nbytes(state: State) -> int:
    """Bytes that the state holds, `seen` counters aside."""
    kept = (tensor for name, tensor in state.items() if name.rsplit(".", 1)[-1] != "seen")
    return sum(tensor.numel() * tensor.element_size() for tensor in kept)


def unread(batch: int, device: torch.device | None) -> State:
    """The state before the first token of something that remembers nothing else: `seen` is 0 in every row."""
    return {"seen": torch.zeros(batch, dtype=torch.long, device=device)}
