"""An op as one object: its backends, the rule that chooses among them, examples for tests and listings, its price.

    OP = Op("scans", {"reference": Backend(reference.scan), "native": Backend(...)}, rule=by_size, examples=(example,),
               price=price)
    name = OP.choose(b)                     # once a call; what the rule chooses by
    h = OP[name](a, b, state)

An op that exists has the parity tests of every backend (tests/ops/test_registry.py), its rows in
`seqloom list --backends`, and backends that `backends.use` forces.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

from torch import Tensor

from seqloom.ops import backends

CHANNELS = 32
"""channels of every example"""
Draw: TypeAlias = Callable[..., Tensor]
"""sizes → a tensor of numbers, one of the inputs of an example"""


@runtime_checkable
class Example(Protocol):
    """Calls an op on inputs of B rows, T tokens and `CHANNELS` channels, all made from what `draw` gives."""

    def __call__(self, draw: Draw, B: int, T: int, /) -> Tensor | tuple[Tensor, ...]:
        """What every backend must compute alike."""


@runtime_checkable
class Streamed(Protocol):
    """An op that reads on, as its test calls it: `op(…, state=None, lengths=None) → y, state`.

    `streamed(draw, B, T)` returns the op over its inputs along time, each (B, T, …), and these inputs.
    """

    def __call__(self, draw: Draw, B: int, T: int, /) -> tuple[Callable[..., tuple[Tensor, Any]], tuple[Tensor, ...]]:
        """`run(*inputs, state=None, lengths=None) → y (B, T, …), state`, and the inputs."""


def _anything(*of: Any) -> bool:
    return True


@final
@dataclass(frozen=True)
class Backend:
    """One way to compute an op."""

    run: Any
    """a function; where the op has several forms, a module or a mapping of their functions"""
    lacking: Callable[[], Mapping[str, str]] = dict
    """its name and why this machine cannot run it; empty if it can"""
    fits: Callable[..., bool] = _anything
    """whether it can do a call, by what the rule chooses by"""


@final
class Op:
    """An equation without parameters: its backends by name, `reference` among them."""

    def __init__(
        self,
        name: str,
        ways: dict[str, Backend],
        rule: Callable[..., str],
        examples: tuple[Example, ...],
        price: Any = None,
        streamed: tuple[Streamed, ...] = (),
    ) -> None:
        self.name = name
        self.backends = ways
        self.rule = rule
        """what a call is chosen by → the name of the fastest backend"""
        self.examples = examples
        self.streamed = streamed
        """the forms in which it reads on from a state"""
        self.price = price
        """what it costs, as `seqloom.core.cost` counts: a function, or a module with one for each form"""
        backends.register(self)

    def choose(self, *of: Any) -> str:
        """The name of the backend for one call: the forced one, else the rule's. ValueError if it cannot do this call.

        `of` are the arguments of the rule. Call it once per call of the op, in its forward.
        """
        name = backends.choice(self.name, self.rule(*of))
        if not self.backends[name].fits(*of):
            able = [name for name, backend in self.backends.items() if backend.fits(*of)]
            raise ValueError(f"backend {name!r} of {self.name} cannot do this; able are {', '.join(able)}")
        return name

    def __getitem__(self, name: str) -> Any:
        """What the backend runs."""
        return self.backends[name].run

    def lacking(self) -> dict[str, str]:
        """The backends that this machine cannot run, with the reasons."""
        return {name: why for backend in self.backends.values() for name, why in backend.lacking().items()}
