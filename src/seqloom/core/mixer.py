"""The contract of a sequence mixer: the only part of a model that reads other tokens.

A mixer maps a stream (B, T, D) to a stream of the same shape: a whole sequence at once (`forward`), piece by piece from
a state (`extend`), or token by token (`step`). `docs/contract.md` lists what it promises, and `tests/contract` checks
the promises for every registered mixer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from seqloom.core import state_spec as declared
from seqloom.core.arguments import count, deviation, flag, mask, stream
from seqloom.core.autocast import autocasts
from seqloom.core.cost import Cost, Per, Span, span
from seqloom.core.extras import Extras
from seqloom.core.guards import guards_of
from seqloom.core.overlap import require_apart
from seqloom.core.parts import init_weights, part_price, parts
from seqloom.core.roles import Role
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import State, bound_state, require_reusable
from seqloom.core.state_spec import StateSpec
from seqloom.core.view import View


@dataclass(frozen=True)
class Traits:
    """What a mixer can do. A call of anything else raises an error with the reason and the nearest alternative."""

    causal: Literal["always", "never", "either"]
    """whether an output may depend on later tokens"""
    streams: bool
    """whether it can read on from a state: `start`, `extend`, `step`"""
    state: Literal["constant", "window", "grows", "none"]
    """how the size of its state depends on the number of tokens"""
    longest: int | None = None
    """the longest sequence it takes, in tokens; None for any"""
    selects_ahead: bool = False
    """whether its choice of buckets looks at later tokens"""


class Mixer(nn.Module, ABC):
    """A drop-in replacement for self-attention.

    `forward`, `extend` and `step` change no parameter and no buffer, so that recomputation is safe. What a mixer cannot
    do raises ValueError; no argument is ignored.
    """

    traits: Traits
    """declared for the class; set on the instance where it depends on a setting or on the context"""
    roles: ClassVar[Mapping[str, Role]] = {}
    """roles of parameters where they are not the defaults of `seqloom.core.roles`"""
    dim: int
    shared: nn.Module | None
    """what it shares with other layers (`MixerConfig.shared_module`); a submodule only of a mixer outside a model"""

    def __init__(self) -> None:
        super().__init__()
        self.shared = None
        self.register_load_state_dict_post_hook(_rebuild)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @property
    def state_spec(self) -> StateSpec:
        """The entries of the state, without `length`; by default none."""
        return {}

    @abstractmethod
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        """Outputs (B, T, D) of a whole sequence. Where `keep` (B, T) is False the output is 0 and no other changes."""

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        """The state of `batch` rows before the first token; entries that grow have room for `capacity` tokens.

        Raises TypeError or ValueError unless both are ints of 0 or more.
        """
        count("batch", batch)
        if capacity is not None:
            count("capacity", capacity)
        declared.require_room(self.state_spec, batch, capacity or 0, self.device)
        return declared.start(self.state_spec, batch, capacity or 0, self.dtype, self.device)

    @abstractmethod
    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        """Outputs of a piece (B, T, D) that follows `state`, and the state after it.

        Gradients flow back through the state into earlier pieces. The given state does not change.
        """

    @abstractmethod
    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """The output of one token (B, D) and the state after it.

        With `reuse` the given state may be overwritten, and the caller must not use it again.
        """

    def read_token(self, x: Token, state: State, reuse: bool) -> tuple[Token, State]:
        """`step`, whose caller has checked the arguments (`check_token_state`), as a model does for all its layers."""
        return self.step(x, state, reuse=reuse)

    def cost(self, T: int, per: Per = "sequence") -> Cost:
        """The price of the equation for one row of T tokens, or for the token at position T alone (`per="token"`).

        It has the operations of `price`, the number of parameters, and the size of the state by `state_spec`. Raises
        TypeError or ValueError for a T or `per` that is not valid.
        """
        priced = span(T, per)
        params = sum(parameter.numel() for parameter in self.parameters())
        size = sum(entry.numbers(T) for entry in self.state_spec.values())
        return replace(self.price(priced), params=params, state=size)

    def price(self, span: Span) -> Cost:
        """Operations and critical path of `chain`, plus the operations of the parts that `chain` leaves out."""
        chain = [part for part in self.price_terms(span) if part is not None]
        critical = [part if isinstance(part, Cost) else part_price(part, span) for part in chain]
        off_chain = [part for part in self.parts if all(part is not link for link in chain)]
        parallel = [part_price(part, span).parallel() for part in off_chain]
        return sum([*critical, *parallel], Cost())

    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        """The critical path in order: a module stands for its own price, a `Cost` for other lines of the equation.

        Modules that are left out are priced as computed in parallel; None is skipped. By default all parts in order.
        """
        return self.parts

    @property
    def output_layer(self) -> nn.Linear | None:
        """The linear layer that ends `chain`, if it ends with one; scaled initialization divides its weights."""
        chain = [part for part in self.price_terms(Span(1)) if part is not None]
        return chain[-1] if chain and isinstance(chain[-1], nn.Linear) else None

    @property
    def parts(self) -> list[nn.Module]:
        """The submodules that are computed once per token and have a price; by default all."""
        return list(parts(self))

    @final
    def share(self, module: nn.Module, owned: bool) -> None:
        """Sets `shared`: as a submodule if `owned`; otherwise the model holds the module, once for all layers."""
        if owned:
            self.shared = module
        else:
            self.__dict__["shared"] = module

    def reset(self, std: float) -> None:
        """Initializes the plain projections and embeddings: weights N(0, std²), biases 0, norms at gain 1.

        The mixer's own parameters (taps, decays) stay as they are, unless it overrides this.
        Raises TypeError or ValueError unless `std` is a finite number of 0 or more.
        """
        deviation(std)
        init_weights(self, std)

    def rebuild(self) -> None:
        """Computes the buffers that are not saved, on the device of the parameters; by default none.

        Called after the module was moved or converted and after weights were loaded, so that a mixer built on the meta
        device computes the same after loading.
        """

    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of parameters with optimizer settings; by default one group of all, without settings."""
        return [{"params": list(self.parameters())}]

    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """`forward`, and auxiliary losses and statistics for training; by default none."""
        return self(x, keep), Extras()

    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        """`extend`, and auxiliary losses and statistics for training; by default none."""
        return *self.extend(x, state, keep), Extras()

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weights of the auxiliary losses in training, by name; 1 for a name that is missing."""
        return {}

    @property
    def clipped_apart(self) -> Iterable[nn.Parameter]:
        """Parameters with a loss of their own, whose gradients are clipped by a norm of their own. By default none."""
        return ()

    @property
    def uncaptured_reason(self) -> str:
        """Why a training step cannot be recorded as a CUDA graph, in a few words; by default "": it can.

        It can where whole sequences are read without reading a number from the device.
        """
        return ""

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after optimizer step `step`, counted from 1, with the sums of the statistics of all its passes.

        This is the only method that may change buffers. By default it does nothing.
        """

    @property
    def same_as(self) -> str | None:
        """The kind of mixer that this one equals on texts of its context, such as attention where a pattern covers it.

        None, as by default, where they differ.
        """
        return None

    @property
    def limitations(self) -> Iterable[str]:
        """What it cannot do besides what its traits say, as phrases that follow "it cannot"; by default nothing."""
        return ()

    def plots(self, x: Stream) -> list[View]:
        """What a report draws: weights, and what was computed from the first row of `x`; by default nothing."""
        return []

    def crop(self, state: State, tokens: int) -> State:
        """The state after the first `tokens` tokens of each row; ValueError where the state does not determine it.

        A cache of keys and values can be cropped, a sum over them cannot. The given state does not change.
        """
        count("tokens", tokens)
        self.check_state(state)
        return declared.crop(self.state_spec, state, tokens)

    def reserve(self, state: State, tokens: int) -> State:
        """The same state with room for `tokens` more tokens, so that no step of them changes a shape.

        TypeError or ValueError unless `tokens` is an int of 0 or more, and as `check_state`.
        """
        count("tokens", tokens)
        self.check_state(state)
        state = bound_state(state)
        declared.require_room(self.state_spec, len(state["length"]), tokens + (state.bound or 0), self.device)
        return declared.with_room(self.state_spec, state, tokens)

    def trim(self, state: State) -> State:
        """The same state, contiguous and without unused slots, ready to be saved. Raises as `check_state` does."""
        self.check_state(state)
        return declared.trim(self.state_spec, state)

    def check_state(self, state: State, batch: int | None = None) -> None:
        """Raises ValueError or TypeError unless `state` is one of this mixer's, of `batch` rows where that is given.

        Names, dtypes, devices and sizes are compared with `state_spec`; no value is read.
        """
        tensor = self._any_tensor
        compiling = torch.compiler.is_compiling()
        if not compiling and _is_like_last(self, state, tensor) and batch in (None, state["length"].shape[0]):
            return
        declared.check(self.state_spec, state, batch, tensor.dtype, tensor.device, autocasts(tensor.device))
        if not compiling:
            _remember(self, state, tensor)

    def check_token_state(self, state: State, batch: int, reuse: bool) -> None:
        """As `check_state` for a token of each of `batch` rows, and ValueError where the state cannot be reused.

        With `reuse` it must have no gradients, and its tensors must not share memory.
        """
        self.check_state(state, batch)
        if reuse:
            require_reusable(state)
            require_apart(state)

    def check_input(self, x: Tensor, keep: Keep | None, ndim: int) -> Tensor:
        """Returns x. Raises unless x is (B, T, D) for an `ndim` of 3 or (B, D) for 2, and keep, if given, fits it.

        Both must be on the mixer's device; x has the dtype of the parameters, or under autocast any floating dtype.
        """
        tensor = self._any_tensor
        x = stream(x, self.dim, ndim, tensor.dtype, tensor.device)
        if keep is not None:
            mask(keep, x)
        return x

    def check_step(self, x: Token, state: State, reuse: bool) -> Token:
        """As `check_input` for a token x, and as `check_token_state`; TypeError unless `reuse` is True or False."""
        x = self.check_input(x, None, 2)
        flag("reuse", reuse)
        self.check_token_state(state, len(x), reuse)
        return x

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.rebuild()
        return self

    @property
    def device(self) -> torch.device:
        """The device of the parameters, or of the buffers of a mixer without parameters."""
        return self._any_tensor.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters, or of the buffers of a mixer without parameters; the state follows it."""
        return self._any_tensor.dtype

    @property
    def _any_tensor(self) -> Tensor:
        """A parameter, or a buffer of a mixer without parameters."""
        parameter = _first_parameter(self)
        return next(self.buffers()) if parameter is None else parameter


class _Fitting(NamedTuple):
    """The last state of a mixer that was found to fit, which others with the same layout need not be compared with."""

    names: tuple[str, ...]
    guards: Any


_fitting: WeakKeyDictionary[Mixer, _Fitting] = WeakKeyDictionary()


def _is_like_last(mixer: Mixer, state: State, parameter: Tensor) -> bool:
    """Whether the state and the mixer's parameter are laid out as when a state of this mixer last fit."""
    last = _fitting.get(mixer)
    if last is None or not isinstance(state, dict) or tuple(state) != last.names:
        return False
    fits: bool = last.guards.check(parameter, *state.values())
    return fits


def _remember(mixer: Mixer, state: State, parameter: Tensor) -> None:
    """Remembers a state that fits."""
    guards = guards_of((parameter, *state.values()))
    if guards is not None:
        _fitting[mixer] = _Fitting(tuple(state), guards)


def _first_parameter(module: nn.Module) -> nn.Parameter | None:
    """The first of `module.parameters()`, which would list every module first: a token, and a graph, ask each time."""
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    for child in module._modules.values():
        if child is not None and (parameter := _first_parameter(child)) is not None:
            return parameter
    return None


def _rebuild(mixer: Mixer, incompatible_keys: Any) -> None:
    """The hook that torch calls after the weights were loaded."""
    mixer.rebuild()


def rebuild_buffers(module: nn.Module) -> None:
    """Calls `rebuild` of every mixer inside, after the weights of a module that was built without memory are filled."""
    for part in module.modules():
        if isinstance(part, Mixer):
            part.rebuild()
