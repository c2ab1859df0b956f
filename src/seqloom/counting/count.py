"""Counts the arithmetic that torch executes, op by op, below autograd.

    with torch.no_grad(), use(attention="reference", lag_sum="reference"):
        count(lambda: mixer(x))          # what the equation costs

Ops on integers and booleans are not arithmetic here; copies, views, lookups and draws are free. The prices are in
`pointwise`, `reductions` and `kernels`. An op on floats that has no price there is an error: none goes uncounted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seqloom.core.cost import Cost
from seqloom.counting import kernels, one_pass, pointwise, reductions

RULES = pointwise.RULES | reductions.RULES | kernels.RULES | one_pass.RULES


@dataclass(frozen=True)
class Executed:
    """Arithmetic operations that ran, by kind; `ops` has them by torch's name of the op."""

    mul: int = 0
    add: int = 0
    div: int = 0
    exp: int = 0
    other: int = 0
    ops: dict[str, Cost] = field(default_factory=dict, compare=False)

    @property
    def total(self) -> int:
        """mul + add + div + exp, as `Cost.total`."""
        return self.mul + self.add + self.div + self.exp

    def per(self, rows: int) -> "Executed":
        """A row's share, rounded: what rows share (the spectrum of a mixer's taps) is spread over them."""
        return Executed(*(round(getattr(self, name) / rows) for name in KINDS))


KINDS = ("mul", "add", "div", "exp", "other")


@final
class Unpriced(AssertionError):
    """Ops on floats that ran and have no price: `ops`, sorted; `executed` has those that have one."""

    def __init__(self, ops: list[str], executed: Executed) -> None:
        price = "price them in seqloom.counting: pointwise, reductions or kernels"
        super().__init__(f"ops on floats without a price: {', '.join(ops)}; {price}")
        self.ops = ops
        self.executed = executed


def count(run: Callable[[], object]) -> Executed:
    """The arithmetic that `run()` executes. Unpriced, after the run, naming all ops that have no price.

    What autograd adds is counted too where `run` makes it execute; for the forward alone, call under `torch.no_grad()`.
    """
    with _Counter() as counter:
        run()
    total = sum(counter.ops.values(), Cost())
    executed = Executed(total.mul, total.add, total.div, total.exp, total.other, dict(counter.ops))
    if counter.unknown:
        raise Unpriced(sorted(counter.unknown), executed)
    return executed


@final
class _Counter(TorchDispatchMode):
    """Adds up the prices of the ops that torch runs while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not type it
        self.ops: dict[str, Cost] = {}
        self.unknown: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__.removesuffix("_")
        priced_namespace = func.namespace in ("aten", "mkldnn", "seqloom")
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if (priced_namespace and (func.is_view or name in pointwise.FREE)) or not _has_floats(outputs, args, kwargs):
            return out
        rule = RULES.get(name) if priced_namespace and outputs else None
        price = rule(pointwise.Call(args, kwargs, outputs[0])) if rule else None
        if price is None:
            self.unknown.add(str(func))
        else:
            self.ops[name] = self.ops.get(name, Cost()) + price
        return out


def _has_floats(outputs: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    tensors = outputs + [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    return any(tensor.dtype.is_floating_point or tensor.is_complex() for tensor in tensors)
