"""An op: an equation without parameters, with its backends, the rule that chooses one, examples, and its price.

    OP = Op("scans", {"reference": Backend(reference.scan), "native": Backend(...)}, rule=by_size, examples=(example,),
               price=reference.price)
    name = OP.choose(b)                     # once per call, with the arguments of the rule
    h = OP[name](a, b, state)

Every op is tested for parity of all its backends (tests/ops/test_registry.py), is listed by `seqloom list --backends`,
and its backends can be forced by `backends.use`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

from torch import Tensor

from seqloom.core.graphs import is_transformed
from seqloom.ops import backends

CHANNELS = 32
"""the number of channels in all examples"""
Draw: TypeAlias = Callable[..., Tensor]
"""sizes → a tensor of random numbers, an input of an example"""


@runtime_checkable
class Example(Protocol):
    """Calls an op with inputs of B rows, T tokens and `CHANNELS` channels, which `draw` makes."""

    def __call__(self, draw: Draw, B: int, T: int, /) -> Tensor | tuple[Tensor, ...]:
        """The outputs of the op, which must agree for all backends."""


def _always(*arguments: Any) -> bool:
    return True


@final
@dataclass(frozen=True)
class Backend:
    """One way to compute an op."""

    run: Any
    """a function; if the op has several forms, a module or a mapping with a function for each"""
    unavailable: Callable[[], Mapping[str, str]] = dict
    """returns its name with the reason why this machine cannot run it; empty if it can"""
    fits: Callable[..., bool] = _always
    """whether it supports a call, given the arguments of the rule"""
    plain: bool = False
    """whether it runs torch's own operations alone, or ops, which torch.func's transforms and forward-mode
    differentiation can follow; the reference always is"""


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
    ) -> None:
        self.name = name
        self.backends = ways
        self.rule = rule
        """maps the arguments of `choose` to the name of the fastest backend"""
        self.examples = examples
        self.price = price
        """the price as `seqloom.core.cost` counts it: a function, or a mapping with a function for each form"""
        backends.register(self)

    def choose(self, *arguments: Any) -> str:
        """The name of the backend for one call, forced or by the rule. ValueError if it cannot do the call.

        `arguments` are those of the rule. It must be called once per call of the op, in its forward pass. Under
        torch.func's transforms and in forward mode a plain backend takes the place of one that is not, and a forced one
        that is not plain raises ValueError.
        """
        name = self.rule(*arguments)
        if is_transformed():
            name = self._plain(name, arguments)
        name = backends.choice(self.name, name)
        if not self.backends[name].fits(*arguments):
            able = [other for other, backend in self.backends.items() if backend.fits(*arguments)]
            raise ValueError(f"backend {name!r} of {self.name} cannot do this; able are {', '.join(able)}")
        return name

    def _plain(self, by_size: str, arguments: tuple[Any, ...]) -> str:
        """The backend by size where it is plain, else another one that is, and that supports the call."""
        names = (by_size, *self.backends)
        able = [name for name in names if self.backends[name].plain and self.backends[name].fits(*arguments)]
        forced = backends.forced_backend(self.name)
        if forced not in (None, "reference") and not self.backends[forced].plain:
            raise ValueError(
                f"backend {forced!r} of {self.name} has no forward-mode derivatives and does not run under torch.func's"
                f" transforms: force {(*able, 'reference')[0]!r}, or none"
            )
        return (*able, "reference")[0]

    def __getitem__(self, name: str) -> Any:
        """The function (or functions) of a backend."""
        return self.backends[name].run

    def unavailable(self) -> dict[str, str]:
        """The backends that this machine cannot run, with the reasons."""
        return {name: why for backend in self.backends.values() for name, why in backend.unavailable().items()}
