"""The state of a mixer or a model between tokens.

    State        the tensors of one layer by name, batch first; `length` (B,) counts the tokens that each row has read
    ModelState   the states of a model's sublayers, layer by layer, and an `extra` that depends on the kind of model

`select`, `repeat`, `nbytes`, `flat` and `fill_state` take either. `extend` and `step` return a new state; unless `step`
is called with `reuse=True`, they leave the tensors of the old state bit for bit unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch._C import _functorch
from torch._C._functorch import maybe_current_level
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils import _pytree

Entries: TypeAlias = dict[str, Tensor]
"""tensors by name, without `length`"""


class Length(NamedTuple):
    """How many tokens the rows of a state have read."""

    tokens: Int[Tensor, " B"]
    bound: int | None = None
    """no row has read more tokens than this, which the host knows; None in compiled and exported calls"""
    even: bool = False
    """whether every row has read exactly `bound`"""

    def after(self, lengths: Tensor | int, most: int, even: bool = True) -> "Length":
        """The length after each row has read `lengths` more tokens, at most `most`; `even` if all rows read as many."""
        bound = None if self.bound is None else self.bound + most
        return Length(self.tokens + lengths, bound, self.even and even)


@final
class State(dict[str, Tensor]):
    """The tensors of one layer by name, `length` among them, with what the host knows of `length`.

    `bound` is a number of tokens that no row exceeds; eager code chooses shapes by it without waiting for the device.
    A plain dict of the same tensors is a valid state as well: its `bound` is read from the device once.
    """

    __slots__ = ("bound", "even")

    def __init__(self, tensors: Mapping[str, Tensor], bound: int | None = None, even: bool = False) -> None:
        super().__init__(tensors)
        self.bound = bound
        self.even = even

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        super().__setitem__(name, tensor)
        if name == "length":
            self.bound = None

    def setdefault(self, name: str, tensor: Tensor) -> Tensor:
        """The entry, which is set to `tensor` where there is none."""
        if name not in self:
            self[name] = tensor
        return self[name]

    def update(self, *entries: Any, **named: Tensor) -> None:
        """Sets the entries one by one by `__setitem__`, which resets `bound` where it may be wrong."""
        for name, tensor in dict(*entries, **named).items():
            self[name] = tensor

    def __ior__(self, entries: Any) -> "State":  # type: ignore[override, misc]  # as narrow as it is used
        self.update(entries)
        return self


LayerState: TypeAlias = tuple[State, ...]
"""the states of a layer's sublayers, such as of its mixer and of what follows it"""


class ModelState(NamedTuple):
    """The memory of a model."""

    layers: tuple[LayerState, ...]
    extra: State
    """entries of the model itself, such as `length` of a decoder"""


# torch treats a State as a dict of tensors. A compiled graph drops `bound`, which would be a constant in it.
_pytree.register_pytree_node(
    State,
    lambda state: (list(state.values()), tuple(state)),
    lambda tensors, names: State(dict(zip(names, tensors, strict=True))),
    flatten_with_keys_fn=lambda state: (
        [(_pytree.MappingKey(name), tensor) for name, tensor in state.items()],
        tuple(state),
    ),
    serialized_type_name="seqloom.core.state.State",
)


def is_known(tokens: Tensor) -> bool:
    """Whether values of `tokens` can be read: not while a graph is captured, nor of meta, fake or vmap's tensors."""
    if torch.compiler.is_compiling():
        return False
    return not (tokens.is_meta or isinstance(tokens, FakeTensor) or _functorch.is_batchedtensor(tokens))


def bound_state(state: dict[str, Tensor]) -> State:
    """The state with a `bound`, which is read from the device where it is unknown and values can be read.

    Tensors of torch's inference mode are copied outside of it, where they cannot be saved for a backward or be changed.
    """
    if torch.compiler.is_compiling():
        return state  # type: ignore[return-value]  # in a graph a plain dict is enough
    if state["length"].is_inference() and not torch.is_inference_mode_enabled():
        state = _map_tree(torch.clone, state)
    if type(state) is State and state.bound is not None:
        return state
    length = measure_length(state["length"])
    return State(state, length.bound, length.even)


def length_of(state: State) -> Length:
    """How many tokens the rows of a state have read; the state is one that `bound_state` returned."""
    if torch.compiler.is_compiling():
        return Length(state["length"])
    return Length(state["length"], state.bound, state.even)


def measure_length(tokens: Int[Tensor, " B"]) -> Length:
    """The length of rows that have read `tokens`, with a `bound` where values can be read from the device."""
    if not is_known(tokens):
        return Length(tokens)
    counts = set(tokens.tolist())
    if min(counts, default=0) < 0:
        raise ValueError("the state's length counts the tokens that were read, and it is negative: use start(batch)")
    return Length(tokens, max(counts, default=0), len(counts) <= 1)


def count_read(entries: Entries, length: Length) -> State:
    """The state with these entries whose rows have read `length`."""
    entries["length"] = length.tokens
    if torch.compiler.is_compiling():  # what the host knows would be a constant of the graph
        return State(entries)
    return State(entries, length.bound, length.even)


def step_state(entries: Entries, state: State) -> State:
    """The state with these entries, one token after `state`, which `bound_state` returned."""
    return count_read(entries, length_of(state).after(1, 1))


def unread(batch: int, device: torch.device | None) -> State:
    """The state before the first token of a part that has no entries but `length`."""
    return State({"length": torch.zeros(batch, dtype=torch.long, device=device)}, 0, True)


Tree = TypeVar("Tree", bound="State | ModelState")


def map_state(fn: Callable[[Tensor], Tensor], state: Tree) -> Tree:
    """The state with `fn` applied to every tensor; `bound` does not change."""
    return _map_tree(fn, state)


def _map_tree(fn: Callable[[Tensor], Tensor], state: Any) -> Any:
    """As `map_state`, of any part of a state: a tensor, dict of tensors, State, tuple of these or ModelState."""
    if isinstance(state, Tensor):
        return fn(state)
    if isinstance(state, State):
        return State({name: fn(tensor) for name, tensor in state.items()}, state.bound, state.even)
    if isinstance(state, dict):
        return {name: fn(tensor) for name, tensor in state.items()}
    parts = (_map_tree(fn, part) for part in state)
    return ModelState(*parts) if isinstance(state, ModelState) else tuple(parts)


def copy_state(state: Tree) -> Tree:
    """A copy of the state."""
    return map_state(torch.clone, state)


def select(state: Tree, rows: Int[Tensor, " N"]) -> Tree:
    """A copy of the given rows of a state. An index may repeat (to sample a text several times), in any order."""
    return map_state(lambda tensor: tensor.index_select(0, rows), state)


def repeat(state: Tree, times: int) -> Tree:
    """A copy of the state with every row repeated `times` times, next to each other: samples that continue one text."""
    return map_state(lambda tensor: tensor.repeat_interleave(times, 0), state)


def flat(state: State | ModelState) -> dict[str, Tensor]:
    """Every tensor by its path, such as `k` in a State, `layers.0.0.k` and `extra.length` in a ModelState."""
    if isinstance(state, ModelState):
        layer_entries = {
            f"layers.{n}.{m}.{name}": tensor
            for n, layer in enumerate(state.layers)
            for m, part in enumerate(layer)
            for name, tensor in part.items()
        }
        extra_entries = {f"extra.{name}": tensor for name, tensor in state.extra.items()}
        return {**layer_entries, **extra_entries}
    return dict(state)


def fill_state(template: Tree, tensors: Mapping[str, Tensor]) -> Tree:
    """The inverse of `flat`: a state with the structure of `template` and these tensors, from which `bound` is read.

    Raises ValueError where names are missing or unknown.
    """
    names = flat(template).keys()
    if names != tensors.keys():
        wrong = sorted(names ^ tensors.keys())[0]
        raise ValueError(f"the state {'lacks' if wrong in names else 'has a foreign'} entry {wrong!r}")

    def state_at(prefix: str, structure: State) -> State:
        entries = {name: tensors[prefix + name] for name in structure}
        length = measure_length(entries["length"])
        return State(entries, length.bound, length.even)

    if isinstance(template, ModelState):
        layers = tuple(
            tuple(state_at(f"layers.{n}.{m}.", sublayer) for m, sublayer in enumerate(layer))
            for n, layer in enumerate(template.layers)
        )
        return ModelState(layers, state_at("extra.", template.extra))  # type: ignore[return-value]  # of the template's type
    return state_at("", template)  # type: ignore[return-value]  # of the template's type


def restart_rows(state: ModelState, rows: Bool[Tensor, " B"], start: ModelState) -> ModelState:
    """The state with the given rows reset to those of `start`, before the first token; slots that have grown are 0."""

    def restart(tensor: Tensor, initial: Tensor) -> Tensor:
        if initial.shape != tensor.shape:  # an entry that has grown
            initial = torch.zeros_like(tensor)
        mask = rows.view(-1, *[1] * (tensor.ndim - 1))  # (B, 1, …)
        return torch.where(mask, initial, tensor)

    initial_entries = flat(start)
    return fill_state(start, {name: restart(tensor, initial_entries[name]) for name, tensor in flat(state).items()})


def nbytes(state: State | ModelState) -> int:
    """The bytes of all tensors of the state, without `length`."""
    entries = (tensor for name, tensor in flat(state).items() if name.rsplit(".", 1)[-1] != "length")
    return sum(tensor.numel() * tensor.element_size() for tensor in entries)


def require_reusable(state: State) -> None:
    """Raises ValueError where the state has gradients, or may have tangents: overwriting would make them wrong."""
    if forward_ad._current_level >= 0 or maybe_current_level() is not None:  # `transformed`, without a call
        raise ValueError(
            "a state cannot be reused under torch.func's transforms or in forward mode: step with reuse=False"
        )
    for tensor in state.values():
        if tensor.requires_grad:
            raise ValueError("a state with gradients cannot be reused: step with reuse=False, or under torch.no_grad()")
