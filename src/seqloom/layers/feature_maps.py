"""Positive features of queries and keys, whose products are the weights of linear attention.

    elu         φ(a) = elu(a) + 1                                    as wide as a head, without parameters
    hedgehog    φ(a) = [softmax(a M_h), softmax(-a M_h)]             twice as wide; M_h (K, K) of each head, at first I

Source: elu: Katharopoulos et al., arXiv:2006.16236, Eq. 7. hedgehog: Zhang et al., arXiv:2402.04347, section 4.2, where
features are e^{±(a M + b)}; the softmax, which keeps them in bounds, is that of the authors' code, and M has no b.
"""

from abc import ABC, abstractmethod
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, linear, softmax
from seqloom.core.graphs import is_transformed


class FeatureMap(nn.Module, ABC):
    """Features of the heads of one projection, K wide."""

    heads: int
    width: int
    """features of a head"""

    def init(self) -> None:  # most have no parameters
        """Gives parameters their first values."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T F"]:
        """The features, all of them 0 or more."""

    @abstractmethod
    def price(self, span: Span) -> Cost:
        """The operations and the critical path for the tokens of `span` in one row."""


@final
class Elu(FeatureMap):
    """elu(x) + 1."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width

    @override
    def forward(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
        if is_transformed():
            return x.relu() + x.clamp(max=0.0).exp()
        y: Tensor = _EluFunction.apply(x)  # type: ignore[no-untyped-call]  # torch does not type apply
        return y

    @override
    def price(self, span: Span) -> Cost:
        """Comparisons (relu and the bound of e^x) are counted in `other`."""
        numbers = span.rows * self.heads * self.width
        return Cost(add=numbers, exp=numbers, other=2 * numbers, path=("exponentiation", "addition"))


@final
class Hedgehog(FeatureMap):
    """Learned features."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, 2 * width
        self.weight = nn.Parameter(torch.empty(heads, width, width))
        self.init()

    @override
    def init(self) -> None:
        with torch.no_grad():
            self.weight.copy_(torch.eye(self.width // 2))

    @override
    def forward(self, x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T F"]:
        z = x @ self.weight
        return torch.cat([z.softmax(-1), (-z).softmax(-1)], -1)

    @override
    def price(self, span: Span) -> Cost:
        """Signs are counted in `other`."""
        rows, K = span.rows * self.heads, self.width // 2
        return linear(rows, K, K) + Cost(other=rows * K).parallel() + softmax(2 * rows, K)


class _EluFunction(torch.autograd.Function):
    """elu(x) + 1, computed as e^x for negative x, since e^x - 1 + 1 would round a small e^x to 0.

    The derivative is the value itself where that is below 1, else 1; this needs fewer passes over memory than torch's.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.relu() + x.clamp(max=0.0).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy * ctx.saved_tensors[0].clamp(max=1.0)
