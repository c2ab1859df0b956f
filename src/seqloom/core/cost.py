"""The price of an equation, in the conventions of the Extractor paper's section 7.

    a sum of n terms is n-1 additions; masked terms are not computed; a scale 1/√h is a division;
    the maximum that stabilises a softmax is not counted; `path` lists the operations that must follow each other

Source: Chen, Attention Is Not All You Need Anymore, arXiv:2308.07661, section 7 and Tables 3-7; nothing differs.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, final, get_args

from seqloom.core.arguments import count, describe_value

Step: TypeAlias = Literal["multiplication", "cumulation", "division", "exponentiation", "addition", "other"]
Per: TypeAlias = Literal["sequence", "token"]


@final
@dataclass(frozen=True)
class Span:
    """The positions of one row that are priced: 1..T (`per="sequence"`), or T alone (`per="token"`)."""

    T: int
    per: Per = "sequence"

    def __post_init__(self) -> None:
        if self.per not in ("sequence", "token") or int(self.per == "token") > self.T:
            raise ValueError(
                f"a price is per sequence of 0 or more tokens or per token at position 1 or later, "
                f"not {self.per!r}, {self.T}"
            )

    @property
    def rows(self) -> int:
        """The number of tokens."""
        return self.T if self.per == "sequence" else 1

    @property
    def first(self) -> int:
        """1 if the first position is among the priced ones, else 0."""
        return min(self.T, 1) if self.per == "sequence" else int(self.T == 1)

    def terms(self, context: int | None = None) -> int:
        """The number of (query, key) pairs: a position reads itself and those before it, at most `context` in all."""
        reach = self.T if context is None else min(self.T, context)
        if self.per == "token":
            return reach
        return reach * (reach + 1) // 2 + (self.T - reach) * reach

    def terms_around(self, reach: int | None = None) -> int:
        """The number of (query, key) pairs among T positions that are less than `reach` apart, in both directions."""
        distances = self.T if reach is None else min(self.T, reach)
        return self.T + max(distances - 1, 0) * (2 * self.T - distances)


def span(T: Any, per: Any) -> Span:
    """The span of a user's T and `per`; TypeError or ValueError where they are not valid."""
    if per not in get_args(Per):
        raise ValueError(f"a price is per 'sequence' or per 'token', not {describe_value(per)}")
    count("T", T, least=int(per == "token"))
    return Span(T, per)


@dataclass(frozen=True)
class Cost:
    """A price: scalar operations, and memory as a count of scalars (not bytes)."""

    mul: int = 0
    """multiplications"""
    add: int = 0
    """additions and subtractions"""
    div: int = 0
    """divisions"""
    exp: int = 0
    """exponentiations"""
    other: int = 0
    """comparisons, roots and other operations that the paper does not name"""
    params: int = 0
    """trainable parameters"""
    state: int = 0
    """scalars in the state of one row after T tokens"""
    path: tuple[Step, ...] = ()
    """the critical path of one token"""

    @property
    def total(self) -> int:
        """Arithmetic operations as the paper's Table 7 adds them: mul + add + div + exp."""
        return self.mul + self.add + self.div + self.exp

    def __add__(self, then: "Cost") -> "Cost":
        """The price of one computation after another: counts are added, critical paths are concatenated."""
        counts = {name: getattr(self, name) + getattr(then, name) for name in NAMES}
        return Cost(**counts, path=self.path + then.path)

    def times(self, n: int) -> "Cost":
        """The price of n copies that run one after the other, each with its own parameters and state."""
        return Cost(**{name: n * getattr(self, name) for name in NAMES}, path=n * self.path)

    def __rmul__(self, n: int) -> "Cost":
        """The price of n runs in parallel: n times the operations; parameters, state and path count once."""
        return replace(self, **{name: n * getattr(self, name) for name in OPERATIONS})

    def parallel(self) -> "Cost":
        """The same counts with an empty critical path: it runs next to something that takes longer."""
        return replace(self, path=())


OPERATIONS = ("mul", "add", "div", "exp", "other")
NAMES = (*OPERATIONS, "params", "state")


def linear(rows: int, inputs: int, outputs: int, bias: bool = False) -> Cost:
    """The price of a matrix (inputs, outputs) applied to `rows` vectors: products, sums, and a `bias` if asked for."""
    return Cost(
        mul=rows * inputs * outputs,
        add=rows * (inputs - 1 + bias) * outputs,
        params=(inputs + bias) * outputs,
        path=("multiplication", "cumulation"),
    )


def layernorm(rows: int, dim: int, gain: bool = True, bias: bool = True) -> Cost:
    """The price of layer normalization of `rows` vectors: mean, variance, root, division, gain and bias (Eq. 8)."""
    return Cost(
        mul=rows * (1 + gain) * dim,  # squares, gain
        add=rows * (2 * (dim - 1) + (1 + bias) * dim + 1),  # two sums; the differences and the bias; eps
        div=rows * (dim + 2),  # by the standard deviation; two means
        other=rows,  # the root
        params=(gain + bias) * dim,
        path=(
            *("cumulation", "division", "addition", "multiplication", "cumulation", "division", "other", "division"),
            *(("multiplication",) if gain else ()),
            *(("addition",) if bias else ()),
        ),
    )


def rootnorm(rows: int, dim: int, gain: bool = True) -> Cost:
    """The price of RMSNorm of `rows` vectors: times the inverse of their root mean square, and a gain."""
    return Cost(
        mul=rows * (2 + gain) * dim,  # squares, the inverse root, gain
        add=rows * dim,  # the sum of squares, and eps
        div=rows * 2,
        other=rows,
        params=dim * gain,
        path=(
            *("multiplication", "cumulation", "division", "addition", "other", "division", "multiplication"),
            *(("multiplication",) if gain else ()),
        ),
    )


def gelu(numbers: int) -> Cost:
    """The price of x/2 (1 + erf(x/√2)) of `numbers` scalars; the error function is counted in `other`."""
    path: tuple[Step, ...] = ("multiplication", "other", "addition", "multiplication")
    return Cost(mul=3 * numbers, add=numbers, other=numbers, path=path)


def gelu_tanh(numbers: int) -> Cost:
    """The price of x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) of `numbers` scalars, tanh z = (e^{2z}-1) / (e^{2z}+1)."""
    inner: tuple[Step, ...] = ("multiplication", "multiplication", "multiplication", "addition", "multiplication")
    tanh: tuple[Step, ...] = ("multiplication", "exponentiation", "addition", "division")
    path = (*inner, *tanh, "addition", "multiplication")
    return Cost(mul=7 * numbers, add=4 * numbers, div=numbers, exp=numbers, path=path)


def sigmoid(numbers: int) -> Cost:
    """The price of 1 / (1 + e^-x), or of x / (1 + e^-x), of `numbers` scalars."""
    return Cost(add=numbers, div=numbers, exp=numbers, path=("exponentiation", "addition", "division"))


def gate(numbers: int) -> Cost:
    """The price of σ(q) ∘ y of `numbers` scalars; q is known before y, so σ(q) is not on the critical path."""
    return sigmoid(numbers).parallel() + Cost(mul=numbers, path=("multiplication",))


def softmax(rows: int, dim: int) -> Cost:
    """The price of e^x / Σ e^x of `rows` vectors."""
    n = rows * dim
    return Cost(add=n - rows, div=n, exp=n, path=("exponentiation", "cumulation", "division"))
