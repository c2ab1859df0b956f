"""The declaration of a mixer's state: names, sizes without the batch, dtypes, and which entries grow.

`Mixer.start`, `Mixer.trim`, the size of the state in the price and the check of a given state follow from this
declaration. Every state holds `length` (B,) next to the declared entries. The check reads shapes, never values.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.arguments import describe_value, short
from seqloom.core.available_memory import require_memory
from seqloom.core.state import Length, State, bound_state, count_read, length_of, measure_length

Kind: TypeAlias = Literal["parameters", "wide", "count"]


class StateEntry(NamedTuple):
    """One tensor of a state."""

    shape: tuple[int, ...]
    """sizes without the batch; of the axis that grows, its size before the first token"""
    dtype: Kind = "parameters"
    """the dtype of the parameters, at least float32 (`wide`), or int64 (`count`)"""
    fill: float | tuple[float, ...] = 0.0
    """the values before the first token: one number, or one for each index of the first axis"""
    grows: bool = False
    """whether one axis has a slot for each token that was read"""
    axis: int = 0
    """the axis that grows, counted without the batch"""
    max_slots: int | None = None
    """the largest number of slots of the axis that grows; None for any"""

    def init(self, batch: int, dtype: torch.dtype, device: torch.device | None, capacity: int = 0) -> Tensor:
        """The entry of `batch` rows before the first token, for parameters of `dtype`; `capacity` as in `start`."""
        tensor = torch.zeros(batch, *self.sizes(self.slots(capacity)), dtype=self.stored_dtype(dtype), device=device)
        if isinstance(self.fill, tuple):
            for index, number in enumerate(self.fill):
                tensor[:, index] = number
        elif self.fill:
            tensor.fill_(self.fill)
        return tensor

    def stored_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype of this entry in a mixer whose parameters have `dtype`."""
        if self.dtype == "count":
            return torch.long
        return dtype if self.dtype == "parameters" else torch.promote_types(dtype, torch.float32)

    def slots(self, tokens: int) -> int:
        """The number of slots that hold `tokens` tokens; 0 for an entry that does not grow."""
        if not self.grows:
            return 0
        if self.max_slots is not None:
            tokens = min(tokens, self.max_slots)
        return max(self.shape[self.axis], tokens)

    def room(self, size: int, length: Length, tokens: int, doubles: bool) -> int:
        """The slots that hold `tokens` more tokens than `length`: at least `size`, and twice that if it `doubles`."""
        needed = tokens + (size if length.bound is None or length.bound > size else length.bound)
        if doubles and size < needed < 2 * size:
            needed = 2 * size
        if self.max_slots is not None and needed > self.max_slots:
            needed = self.max_slots
        return needed if needed > size else size  # not `max`, which a graph with symbolic sizes cannot decide

    def sizes(self, slots: int) -> tuple[int, ...]:
        """The sizes without the batch; the axis that grows, if there is one, has `slots` slots."""
        return (*self.shape[: self.axis], slots, *self.shape[self.axis + 1 :]) if self.grows else self.shape

    def numbers(self, T: int) -> int:
        """The number of scalars of one row after T tokens."""
        return int(torch.Size(self.sizes(self.slots(T))).numel())


StateSpec: TypeAlias = Mapping[str, StateEntry]
UNASKED_BYTES = 1 << 30
"""of a state, up to which the memory that is available is not asked for"""
MOST_BYTES = 1 << 56
"""more than any device has"""
LENGTH = StateEntry((), "count")
NO_ROOM = "a state has no room for another token, and a graph cannot make it: start(batch, capacity=tokens), or reserve"


def require_room(memory: StateSpec, batch: int, capacity: int, device: torch.device) -> None:
    """Raises ValueError where a state of so many rows, or with so much room, cannot be stored."""
    if torch.compiler.is_compiling() or not isinstance(batch, int) or not isinstance(capacity, int):
        return  # sizes of a graph
    numbers = batch * (1 + sum(math.prod(entry.sizes(entry.slots(capacity))) for entry in memory.values()))
    needed = 8 * max(numbers, batch, capacity)
    if needed > MOST_BYTES or (needed > UNASKED_BYTES and device.type == "cpu"):
        require_memory(f"a state of {batch} rows", needed, "choose fewer rows, or less capacity")


def start(memory: StateSpec, batch: int, capacity: int, dtype: torch.dtype, device: torch.device) -> State:
    """The state of `batch` rows before the first token; entries that grow have room for `capacity` tokens."""
    entries = {name: entry.init(batch, dtype, device, capacity) for name, entry in memory.items()}
    return State({**entries, "length": LENGTH.init(batch, dtype, device)}, 0, True)


def with_room(memory: StateSpec, state: State, tokens: int, doubles: bool = False) -> State:
    """The state whose entries that grow have room for `tokens` more tokens: itself, if they have, or longer copies.

    With `doubles` they become at least twice as long, so that a text that is read token by token is rarely copied.
    """
    grown = {}
    for name, entry in memory.items():
        if entry.grows:
            tensor, axis = state[name], 1 + entry.axis
            needed = entry.room(tensor.shape[axis], length_of(state), tokens, doubles)
            if needed > tensor.shape[axis]:
                grown[name] = pad(tensor, (0, 0) * (tensor.ndim - 1 - axis) + (0, needed - tensor.shape[axis]))
    return count_read({**state, **grown}, length_of(state)) if grown else state


def with_slot(memory: StateSpec, state: State, doubles: bool) -> State:
    """`with_room` for one token. A graph changes no shape: it raises RuntimeError when it runs without room."""
    if not torch.compiler.is_compiling():
        return with_room(memory, state, 1, doubles)
    for name, entry in memory.items():
        if not entry.grows:
            continue
        size = state[name].shape[1 + entry.axis]
        if size != entry.max_slots:  # a ring that is as long as it may be overwrites its oldest token
            torch._assert_async((state["length"] < size).all(), NO_ROOM)
    return state


def trim(memory: StateSpec, state: State) -> State:
    """The same state, contiguous and without unused room."""
    length = measure_length(state["length"])
    trimmed = dict(state)
    for name, entry in memory.items():
        if entry.grows and length.bound is not None:
            trimmed[name] = _first(state[name], 1 + entry.axis, entry.slots(length.bound))
    return State({name: tensor.contiguous() for name, tensor in trimmed.items()}, length.bound, length.even)


def crop(memory: StateSpec, state: State, tokens: int) -> State:
    """The state after the first `tokens` tokens of each row, or after all tokens of a row that has fewer.

    ValueError where the state no longer determines it: for an entry that does not grow, or a ring that has wrapped.
    """
    state = bound_state(state)
    length = length_of(state)
    if length.bound is not None and length.bound <= tokens:
        return state
    for name, entry in memory.items():
        may_have_wrapped = entry.max_slots is not None and (length.bound is None or length.bound > entry.max_slots)
        if not entry.grows or may_have_wrapped:
            raise ValueError(f"entry {name!r} of the state does not hold what it was after {tokens} tokens")
    entries = {name: _first(state[name], 1 + entry.axis, entry.slots(tokens)) for name, entry in memory.items()}
    read = length.tokens.clamp(max=tokens)
    cropped = Length(read) if length.bound is None else Length(read, tokens, length.even)
    return count_read(entries, cropped)


def check(
    memory: StateSpec, state: Any, batch: int | None, dtype: torch.dtype, device: torch.device, anyfloat: bool = False
) -> None:
    """Raises unless `state` fits `memory` and has `batch` rows (None: as many as its `length`).

    TypeError where it is not a dict of tensors, ValueError for wrong names, sizes, dtypes or devices. With `anyfloat`,
    as under autocast, a floating-point entry may have any floating dtype.
    """
    if batch is not None and not anyfloat and _fits(memory, state, batch, dtype, device):
        return
    advice = "make it with start(batch)" if batch is None else f"make it with start({batch})"
    if not isinstance(state, dict):
        raise TypeError(f"a state is a dict of tensors, not {describe_value(state)}: {advice}")
    for name in (*memory, "length"):
        if name not in state:
            raise ValueError(f"the state has no entry {name!r}; this mixer's has {_entry_names(memory)}: {advice}")
    for name, tensor in state.items():
        if name != "length" and name not in memory:
            raise ValueError(f"the state has an entry {name!r}; this mixer's has {_entry_names(memory)}: {advice}")
        if not isinstance(tensor, Tensor) or tensor.is_nested:
            raise TypeError(f"state entry {name!r} is {describe_value(tensor)}, not a dense tensor: {advice}")
    length = state["length"]
    if batch is None and length.ndim == 1:
        batch = len(length)
    elif batch is not None and length.ndim == 1 and len(length) != batch:
        raise ValueError(
            f"the state is of {len(length)} rows, the input of {batch}; make it with start({batch}) "
            "or choose rows with seqloom.core.state.select"
        )
    slots: int | None = None
    for name, tensor in (("length", length), *state.items()):  # length first: with a wrong one, `batch` may be None
        entry = memory.get(name, LENGTH)
        sizes = entry.shape
        if entry.grows and tensor.ndim == 1 + len(sizes):
            slots = tensor.shape[1 + entry.axis] if slots is None else slots
            allowed = slots >= sizes[entry.axis] and (entry.max_slots is None or slots <= entry.max_slots)
            sizes = entry.sizes(slots) if allowed else sizes
        stored = entry.stored_dtype(dtype)
        both_floats = anyfloat and stored.is_floating_point and tensor.is_floating_point()
        fits = tensor.shape == (batch, *sizes) and (tensor.dtype == stored or both_floats)
        if not fits or tensor.device != device or tensor.layout != torch.strided:
            raise ValueError(
                f"state entry {name!r} is {describe_value(tensor)}, this mixer's is {_shape_text(entry, batch, slots)} "
                f"{short(stored)} on {device}: {advice}"
            )


def _fits(memory: StateSpec, state: Any, batch: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the state is as declared, in few instructions, since graph capture interprets them.

    Where it is not, `check` finds what is wrong.
    """
    if not isinstance(state, dict) or len(state) != len(memory) + 1:
        return False
    slots = None
    for name, entry in (*memory.items(), ("length", LENGTH)):
        tensor = state.get(name)
        if (
            not isinstance(tensor, Tensor)
            or tensor.is_nested
            or tensor.device != device
            or tensor.layout != torch.strided
        ):
            return False
        sizes = entry.shape
        if entry.grows:
            if tensor.ndim != 1 + len(sizes):
                return False
            slots = tensor.shape[1 + entry.axis] if slots is None else slots
            if slots < sizes[entry.axis] or (entry.max_slots is not None and slots > entry.max_slots):
                return False
            sizes = entry.sizes(slots)
        if tensor.shape != (batch, *sizes) or tensor.dtype != entry.stored_dtype(dtype):
            return False
    return True


def _first(tensor: Tensor, axis: int, slots: int) -> Tensor:
    """The first `slots` slots of the tensor along `axis`, or all of them where it has fewer."""
    return tensor.narrow(axis, 0, min(slots, tensor.shape[axis]))


def _entry_names(memory: StateSpec) -> str:
    return ", ".join((*memory, "length"))


def _shape_text(entry: StateEntry, batch: int | None, slots: int | None) -> str:
    """The sizes that an entry may have, such as (2, 0 to 5, 8)."""
    sizes = [str(size) for size in entry.shape]
    if entry.grows:
        least = sizes[entry.axis]
        sizes[entry.axis] = f"{least} or more" if entry.max_slots is None else f"{least} to {entry.max_slots}"
        if slots is not None:
            sizes[entry.axis] += ", the same in all that grow"
    return f"({', '.join(['B' if batch is None else str(batch), *sizes])}{'' if sizes else ','})"
