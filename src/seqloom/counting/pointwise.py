"""The prices of torch's elementwise ops, and the ops that compute nothing.

A product of two complex numbers is 4 products and 2 additions, of a complex and a real one 2 products, a sum of complex
numbers 2 additions, with a real one 1; a quotient is the product with the conjugate and two divisions by its square,
e^z is e^a (cos b + i sin b); signs are not counted there. A sigmoid is 1 / (1 + e^-x), its sign not counted, a tanh
(e^2x - 1) / (e^2x + 1). Comparisons, choices, roots, logarithms and signs go to `other`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from seqloom.core.cost import Cost


class Call(NamedTuple):
    """One op that torch ran: its arguments and its result (the first tensor, where there are several)."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Tensor

    def get(self, index: int, name: str, default: Any = None) -> Any:
        """An argument, given by position or by name, or its default."""
        return self.args[index] if len(self.args) > index else self.kwargs.get(name, default)


Rule = Callable[[Call], Cost | None]
"""the price of a call; None where the rule does not cover the case"""

# fmt: off
FREE = frozenset(
    (
        "_conj_physical", "_local_scalar_dense", "_to_copy", "_unsafe_view", "alias", "arange",
        "bernoulli", "cat", "clone", "constant_pad_nd", "copy", "detach", "diag_embed", "embedding", "empty",
        "empty_like", "empty_permuted", "empty_strided", "eye", "fill", "flip", "full", "full_like", "gather", "index",
        "complex", "index_select", "lift_fresh", "linspace", "masked_select", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "normal", "ones", "ones_like", "rand", "rand_like",
        "randn", "randn_like", "repeat", "resolve_conj", "roll", "scalar_tensor", "select_scatter", "set",
        "slice_scatter", "squeeze", "stack", "tril", "triu", "uniform", "zero", "zeros", "zeros_like",
    )
)
# fmt: on
"""ops that move, draw or make numbers without computing any"""

EACH: dict[str, Cost] = {
    "add": Cost(add=1),
    "sub": Cost(add=1),
    "rsub": Cost(add=1),
    "mul": Cost(mul=1),
    "div": Cost(div=1),
    "reciprocal": Cost(div=1),
    "square": Cost(mul=1),
    "exp": Cost(exp=1),
    "exp2": Cost(exp=1),
    "expm1": Cost(add=1, exp=1),
    "log1p": Cost(add=1, other=1),
    "rsqrt": Cost(div=1, other=1),
    "sigmoid": Cost(add=1, div=1, exp=1),
    "silu": Cost(add=1, div=1, exp=1),
    "tanh": Cost(mul=1, add=2, div=1, exp=1),
    "softplus": Cost(add=1, exp=1, other=1),
    "log_sigmoid_forward": Cost(add=1, exp=1, other=1),
    "logaddexp": Cost(add=3, exp=1, other=2),
    "lerp": Cost(mul=1, add=2),
    "leaky_relu": Cost(mul=1, other=1),
    "polar": Cost(mul=2, other=2),
}
EACH |= dict.fromkeys(
    (
        "abs", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "eq", "erf", "floor", "ge", "gt", "isfinite", "isinf",
        "isnan", "le", "log", "lt",
        "masked_fill", "maximum", "minimum", "ne", "neg", "relu", "round", "sign", "sin", "sqrt", "where",
    ),
    Cost(other=1),
)  # fmt: skip
"""the price of one number of the output"""

COMPLEX: dict[str, Cost] = {
    "exp": Cost(mul=2, exp=1, other=2),
    "log": Cost(mul=2, add=1, other=3),
    "abs": Cost(mul=2, add=1, other=1),
    "neg": Cost(other=2),
    "reciprocal": Cost(mul=2, add=1, div=2),
    "square": Cost(mul=4, add=2),
    "polar": Cost(mul=2, other=2),
}
"""the price of one complex number, or of one real number made of one: e^a (cos b + i sin b), ln|z| + i·angle, …"""


def elementwise(name: str) -> Rule:
    """The rule of an op that computes every number of its output alike."""

    def rule(call: Call) -> Cost | None:
        complex_ = any(isinstance(x, Tensor) and x.is_complex() for x in (*call.args, call.out))
        price = _complex(name, call) if complex_ else EACH[name]
        if price is None or call.kwargs.get("rounding_mode"):
            return None
        scaled = Cost(mul=1) if call.kwargs.get("alpha", 1) != 1 else Cost()
        return times(price + scaled, call.out.numel())

    return rule


def times(price: Cost, n: int) -> Cost:
    """The operations of `price`, n times."""
    return Cost(price.mul * n, price.add * n, price.div * n, price.exp * n, price.other * n)


def _complex(name: str, call: Call) -> Cost | None:
    """The price of one number of an op on complex numbers; None where it is not known."""
    if name == "mul":
        return Cost(mul=4, add=2) if all(_is_complex(x) for x in call.args[:2]) else Cost(mul=2)
    if name == "div":
        if not _is_complex(call.args[1]):
            return Cost(div=2)
        return Cost(mul=6, add=3, div=2) if _is_complex(call.args[0]) else Cost(mul=4, add=1, div=2)
    if name in ("add", "sub", "rsub"):
        both = all(_is_complex(x) for x in call.args[:2])
        return Cost(add=2 if both else 1) if call.kwargs.get("alpha", 1) == 1 else None
    return COMPLEX.get(name)


def _is_complex(x: object) -> bool:
    return isinstance(x, complex) or (isinstance(x, Tensor) and x.is_complex())


def power(call: Call) -> Cost | None:
    """x^p for a whole p ≥ 1 is p-1 products, x^½ a root; anything else has no price."""
    p, n = call.get(1, "exponent"), call.out.numel()
    if isinstance(p, (int, float)) and p == int(p) and p >= 1:
        return Cost(mul=(int(p) - 1) * n)
    return Cost(other=n) if p == 0.5 else None


def added_product(call: Call) -> Cost:
    """x + value · a · b."""
    n = call.out.numel()
    return Cost(mul=n * (2 if call.kwargs.get("value", 1) != 1 else 1), add=n)


RULES: dict[str, Rule] = {name: elementwise(name) for name in EACH} | {"pow": power, "addcmul": added_product}
