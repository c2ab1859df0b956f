"""The gates of GTrXL: how the stream x before a sublayer and the sublayer's output become one stream.

    y = relu(sublayer(norm(x)))                              the norm is of the input alone; `residual` other than add
    input         σ(W x) ∘ x + y
    output        x + σ(W x - b) ∘ y
    highway       f ∘ x + (1 - f) ∘ y,    f = σ(W x + b)
    sigmoid_tanh  x + σ(W y - b) ∘ tanh(U y)
    gru           (1 - z) ∘ x + z ∘ tanh(W_h y + U_h (r ∘ x)),    r = σ(W_r y + U_r x),    z = σ(W_z y + U_z x - b)

b is initialized to 2, so that each layer is near the identity at first; it is learned. `residual=add` is x +
sublayer(norm(x)) as in every other model, without the relu.

Source: Parisotto et al., Stabilizing Transformers for Reinforcement Learning, arXiv:1910.06764, section 3 and its
appendix on the gates; the relu is that of section 3.1. Nothing differs. Seed 002 has the gate of gru alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, Step, linear, sigmoid
from seqloom.layers.linear import Linear

GateKind: TypeAlias = Literal["gru", "input", "output", "highway", "sigmoid_tanh"]
BIAS = 2.0
"""the initial b"""


class Gate(nn.Module, ABC):
    """Joins two vectors x and y of `dim` channels, at any number of tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def init(self) -> None:
        """Sets b; by default there is none. Matrices are initialized as all linear layers."""

    @abstractmethod
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """The stream (…, D) after the sublayer, given it before, x, and y ≥ 0."""

    @abstractmethod
    def own_price(self, rows: int) -> Cost:
        """The price of `join` for this many tokens."""

    @override
    def forward(self, x: Tensor, output: Tensor) -> Tensor:
        """The stream (…, D) after the sublayer, given it before, x, and the sublayer's output (…, D)."""
        return self.join(x, torch.relu(output))

    @final
    def price(self, span: Span) -> Cost:
        """The price of the gate and of the relu before it, for the tokens of a span."""
        return Cost(other=span.rows * self.dim, path=("other",)) + self.own_price(span.rows)

    def _matrix_cost(self, rows: int) -> Cost:
        """The price of a matrix (D, D) without a bias, for this many tokens."""
        return linear(rows, self.dim, self.dim)

    def _bias_cost(self, rows: int) -> Cost:
        """The price of adding or subtracting b, for this many tokens."""
        return Cost(add=rows * self.dim, params=self.dim, path=("addition",))

    def _pointwise_cost(self, rows: int, mul: int, add: int) -> Cost:
        """The price of `mul` products and `add` sums per element, in sequence."""
        n = rows * self.dim
        product: tuple[Step, ...] = ("multiplication",) if mul else ()
        return Cost(mul=mul * n, add=add * n, path=(*product, *(("addition",) if add else ())))


class BiasedGate(Gate, ABC):
    """A gate with a bias b."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.b = nn.Parameter(torch.full((dim,), BIAS))

    @override
    def init(self) -> None:
        nn.init.constant_(self.b, BIAS)


@final
class InputGate(Gate):
    """σ(W x) ∘ x + y."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = Linear(dim, dim, bias=False)

    @override
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(self.w(x)) * x + y

    @override
    def own_price(self, rows: int) -> Cost:
        return self._matrix_cost(rows) + sigmoid(rows * self.dim) + self._pointwise_cost(rows, 1, 1)


@final
class OutputGate(BiasedGate):
    """x + σ(W x - b) ∘ y."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = Linear(dim, dim, bias=False)

    @override
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return x + torch.sigmoid(self.w(x) - self.b) * y

    @override
    def own_price(self, rows: int) -> Cost:
        gate = self._matrix_cost(rows) + self._bias_cost(rows) + sigmoid(rows * self.dim)
        return gate + self._pointwise_cost(rows, 1, 1)


@final
class HighwayGate(BiasedGate):
    """f ∘ x + (1 - f) ∘ y, f = σ(W x + b)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = Linear(dim, dim, bias=False)

    @override
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        f = torch.sigmoid(self.w(x) + self.b)
        return f * x + (1 - f) * y

    @override
    def own_price(self, rows: int) -> Cost:
        gate = self._matrix_cost(rows) + self._bias_cost(rows) + sigmoid(rows * self.dim)
        return gate + self._pointwise_cost(rows, 0, 1) + self._pointwise_cost(rows, 2, 1)


@final
class SigmoidTanhGate(BiasedGate):
    """x + σ(W y - b) ∘ tanh(U y)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = Linear(dim, dim, bias=False)
        self.u = Linear(dim, dim, bias=False)

    @override
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        return x + torch.sigmoid(self.w(y) - self.b) * torch.tanh(self.u(y))

    @override
    def own_price(self, rows: int) -> Cost:
        gate = self._matrix_cost(rows) + self._bias_cost(rows) + sigmoid(rows * self.dim)
        candidate = (self._matrix_cost(rows) + tanh(rows * self.dim)).parallel()
        return gate + candidate + self._pointwise_cost(rows, 1, 1)


@final
class GRUGate(BiasedGate):
    """(1 - z) ∘ x + z ∘ ĥ: a step of a GRU from the state x, which reads y."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = Linear(dim, 3 * dim, bias=False)
        """W_r, W_z and W_h"""
        self.u = Linear(dim, 2 * dim, bias=False)
        """U_r and U_z"""
        self.u_h = Linear(dim, dim, bias=False)

    @override
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        y_r, y_z, y_h = self.w(y).chunk(3, -1)
        x_r, x_z = self.u(x).chunk(2, -1)
        r = torch.sigmoid(y_r + x_r)
        z = torch.sigmoid(y_z + x_z - self.b)
        h = torch.tanh(y_h + self.u_h(r * x))
        return (1 - z) * x + z * h

    @override
    def own_price(self, rows: int) -> Cost:
        D = self.dim
        n = rows * D
        products = linear(rows, D, 3 * D) + linear(rows, D, 2 * D).parallel()
        z = (Cost(add=n) + self._bias_cost(rows) + sigmoid(n)).parallel()
        r = self._pointwise_cost(rows, 0, 1) + sigmoid(n) + self._pointwise_cost(rows, 1, 0)
        h = self._matrix_cost(rows) + self._pointwise_cost(rows, 0, 1) + tanh(n)
        mean = Cost(mul=2 * n, add=2 * n, path=("multiplication", "addition"))
        return products + z + r + h + mean


def tanh(numbers: int) -> Cost:
    """The price of tanh z = (e^{2z} - 1) / (e^{2z} + 1), for `numbers` elements."""
    path: tuple[Step, ...] = ("multiplication", "exponentiation", "addition", "division")
    return Cost(mul=numbers, add=2 * numbers, div=numbers, exp=numbers, path=path)


GATES: dict[GateKind, Callable[[int], Gate]] = {
    "gru": GRUGate,
    "input": InputGate,
    "output": OutputGate,
    "highway": HighwayGate,
    "sigmoid_tanh": SigmoidTanhGate,
}
