"""Mixers whose derivatives, rounding or price are wrong."""

from dataclasses import replace

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Per, Span
from tests.contract.faults import caught_by
from tests.contract.sound import Average
from tests.contract.sound_others import Cached


class _WrongFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, dy: Tensor) -> Tensor:
        return 1.999 * ctx.saved_tensors[0] * dy


class _WrongSecond(_WrongFirst):
    @staticmethod
    def backward(ctx, dy: Tensor) -> Tensor:
        return 2.0 * ctx.saved_tensors[0].detach() * dy


@caught_by(
    check_derivatives="the slope is",
    check_second_derivatives="Jacobian mismatch",
    check_gradients="forward over 5 tokens: the gradient of .* is wrong",
)
class WrongDerivative(Average):
    """A hand-written derivative is wrong by 1/2000."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return _WrongFirst.apply(super().read(total, count))


class _RightUpToEight(_WrongFirst):
    @staticmethod
    def backward(ctx, dy: Tensor) -> Tensor:
        return torch.cat([2.0 * ctx.saved_tensors[0][:, :8] * dy[:, :8], torch.zeros_like(dy[:, 8:])], 1)


@caught_by(check_gradients="forward over 263 tokens: the gradient of .* is wrong")
class RightUpToEight(Average):
    """A hand-written backward ends after its first block of 8 tokens."""

    def mix(self, x: Tensor) -> Tensor:
        return _RightUpToEight.apply(super().mix(x))


@caught_by(check_gradients="the gradient of w.weight is wrong: its slope is 0 in a random direction")
class ForgetsItsWeight(Average):
    """The gradient of a parameter is zero."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return torch.tanh(total / count[..., None] @ self.w.weight.detach().mT)


@caught_by(check_second_derivatives="Jacobian mismatch")
class WrongSecondDerivative(Average):
    """A backward drops its dependence on the input: first derivatives are right, second ones wrong without an error."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return _WrongSecond.apply(super().read(total, count))


@caught_by(check_small_numbers="forward is off")
class RoundsInside(Average):
    """Works in bfloat16 unless it is given float64."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return super().read(total if total.dtype == torch.float64 else total.bfloat16().to(total.dtype), count)


@caught_by(check_long_rows_in_bfloat16="the relative error is")
class RoundsSumsOfManyTokens(Average):
    """In bfloat16 the outputs of tokens far from the first are too large."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        y = super().read(total, count)
        return torch.where(count[..., None] > 64, 1.05 * y, y) if self.dtype == torch.bfloat16 else y


@caught_by(check_small_numbers="float64 out")
class AnswersInDouble(Average):
    """Returns another dtype than that of its input."""

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return super().read(total, count).double()


@caught_by(check_cost="0 parameters")
class ForgetsParameters(Average):
    """Its price leaves the weights out."""

    def cost(self, T: int, per: Per = "sequence") -> Cost:
        return replace(super().cost(T, per), params=0)


@caught_by(check_cost="the price of 1 tokens says mul 71, the reference executes 72")
class ForgetsProducts(Average):
    """Its price adds up, but is too small."""

    def cost(self, T: int, per: Per = "sequence") -> Cost:
        return super().cost(T, per) + Cost(mul=-T if per == "sequence" else -1)


@caught_by(check_cost="add of 2 tokens")
class CountsTokensTwice(Cached):
    """The price of a token is that of the average token."""

    def price(self, span: Span) -> Cost:
        price = super().price(Span(span.T))
        if span.per == "sequence":
            return price
        n = max(span.T, 1)
        counts = (price.mul // n, price.add // n, price.div // n, price.exp // n, price.other // n)
        return Cost(*counts, price.params, path=price.path)
