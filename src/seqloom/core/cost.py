"""What an equation costs, in the conventions of the Extractor paper's section 7.

    a sum of n terms is n-1 additions; masked terms are not computed; a scale 1/√h is a division;
    the maximum that stabilises a softmax is not counted; `path` lists the operations that must follow each other

Source: Chen, Attention Is Not All You Need Anymore, arXiv:2308.07661, section 7 and Tables 3-7; nothing differs.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Step: TypeAlias = Literal["multiplication", "cumulation", "division", "exponentiation", "addition", "other"]
Per: TypeAlias = Literal["sequence", "token"]


@dataclass(frozen=True)
class Cost:
    """A price: operations in numbers, memory in numbers held (not bytes)."""

    mul: int = 0
    """multiplications"""
    add: int = 0
    """additions and subtractions"""
    div: int = 0
    """divisions"""
    exp: int = 0
    """exponentiations"""
    other: int = 0
    """comparisons, roots and whatever the paper does not name"""
    params: int = 0
    """trainable numbers"""
    state: int = 0
    """numbers that one row keeps for the next token, after T tokens"""
    path: tuple[Step, ...] = ()
    """the critical path of one token"""

    @property
    def total(self) -> int:
        """Arithmetic operations as the paper's Table 7 adds them: mul + add + div + exp."""
        return self.mul + self.add + self.div + self.exp

    def __add__(self, then: "Cost") -> "Cost":
        """Both, one after the other: counts add, paths follow each other."""
        counts = {name: getattr(self, name) + getattr(then, name) for name in NAMES}
        return Cost(**counts, path=self.path + then.path)


NAMES = ("mul", "add", "div", "exp", "other", "params", "state")


def linear(rows: int, inputs: int, outputs: int, bias: bool = False) -> Cost:
    """A matrix of (inputs, outputs) applied to `rows` vectors: a product and a cumulation, and the bias if any."""
    return Cost(
        mul=rows * inputs * outputs,
        add=rows * (inputs - 1 + bias) * outputs,
        params=(inputs + bias) * outputs,
        path=("multiplication", "cumulation"),
    )


def layernorm(rows: int, dim: int, affine: bool = True) -> Cost:
    """Layer normalisation of `rows` vectors: mean, variance, root, division, and gain and bias (the paper's Eq. 8)."""
    return Cost(
        mul=rows * (1 + affine) * dim,  # squares, gain
        add=rows * (2 * (dim - 1) + (1 + affine) * dim + 1),  # two sums; the differences and the bias; eps
        div=rows * (dim + 2),  # by the deviation; two means
        other=rows,  # the root
        params=2 * dim * affine,
        path=(
            *("cumulation", "division", "addition", "multiplication", "cumulation", "division", "other", "division"),
            *(("multiplication", "addition") if affine else ()),
        ),
    )


def rootnorm(rows: int, dim: int, affine: bool = True) -> Cost:
    """`rows` vectors times the inverse of their root mean square, and a gain."""
    return Cost(
        mul=rows * (2 + affine) * dim,  # squares, the inverse root, gain
        add=rows * dim,  # the sum of squares, and eps
        div=rows * 2,
        other=rows,
        params=dim * affine,
        path=(
            *("multiplication", "cumulation", "division", "addition", "other", "division", "multiplication"),
            *(("multiplication",) if affine else ()),
        ),
    )


def gelu(numbers: int) -> Cost:
    """x/2 (1 + erf(x/√2)), of so many numbers; the error function is counted in `other`."""
    path: tuple[Step, ...] = ("multiplication", "other", "addition", "multiplication")
    return Cost(mul=3 * numbers, add=numbers, other=numbers, path=path)


def lookback(T: int, context: int | None, per: Per) -> tuple[int, int]:
    """The places that are priced, and how many tokens they look back on together, each itself included.

    Places 1..T, or place T alone; none looks back on more than `context` tokens.
    """
    if per not in ("sequence", "token") or (T < 1 if per == "token" else T < 0):
        raise ValueError(
            f"a price is per sequence of 0 or more tokens or per token at place 1 or later, not {per!r}, {T}"
        )
    reach = T if context is None else min(T, context)
    if per == "token":
        return 1, reach
    return T, reach * (reach + 1) // 2 + (T - reach) * reach
