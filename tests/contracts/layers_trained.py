"""Layers of a user whose outputs are right, and whose training goes wrong: each has one false gradient.

y_t = Σ_{s ≤ t} (q_t · k_s) v_s / (t + 1)         Keyed
"""

import torch
from torch import Tensor, nn

from tests.contracts.layers import Decay, breaks


class Keyed(nn.Module):
    """Sound."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def keys(self, x: Tensor) -> Tensor:
        return self.k(x)

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)[:, None]
        return (self.q(x) @ self.keys(x).mT).tril() @ self.v(x) / positions


class Relu(Keyed):
    """Sound: thousands of bends, some of which a step of differences crosses."""

    def keys(self, x: Tensor) -> Tensor:
        return torch.relu(self.k(x))


class LargestKeys(Keyed):
    """Sound: each token reads its two largest channels, which a step of differences may change."""

    def keys(self, x: Tensor) -> Tensor:
        k = self.k(x)
        return torch.where(k >= k.topk(2, -1).values[..., 1:], k, 0.0)


class _Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k: Tensor) -> Tensor:
        return k.clone()

    @staticmethod
    def backward(ctx, dk: Tensor) -> Tensor:
        return 3 * dk


@breaks(
    "gradients", r"forward over 5 tokens: the gradient of k.weight is wrong: its slope is .*; wrong too: the input$"
)
class TriplesKeys(Keyed):
    """The backward of an op multiplies the gradient of the keys by 3."""

    def keys(self, x: Tensor) -> Tensor:
        return _Tripled.apply(super().keys(x))


class _RightUpToEight(_Tripled):
    @staticmethod
    def backward(ctx, dk: Tensor) -> Tensor:
        return torch.cat([dk[:, :8], 0.9 * dk[:, 8:]], 1)


@breaks("gradients", r"forward over 263 tokens: the gradient of k.weight is wrong")
class RightUpToEight(Keyed):
    """The backward is right for the tokens of its first block."""

    def keys(self, x: Tensor) -> Tensor:
        return _RightUpToEight.apply(super().keys(x))


class _RightUpToBlock(_Tripled):
    @staticmethod
    def backward(ctx, dk: Tensor) -> Tensor:
        return torch.cat([dk[:, :256], 0 * dk[:, 256:]], 1)


@breaks("gradients", r"forward over 263 tokens: the gradient of k.weight is wrong")
class DropsTheLastBlock(Keyed):
    """The backward leaves out the tokens of a last block that is not full."""

    def keys(self, x: Tensor) -> Tensor:
        return _RightUpToBlock.apply(super().keys(x))


@breaks("gradients", r"forward over 5 tokens: the gradient of a is wrong: its slope is 0 in a random direction")
class ForgetsDecays(Decay):
    """A parameter's gradient is zero."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        a = self.a
        h, outputs = torch.zeros_like(x[:, 0]), []
        for position in range(x.shape[1]):
            h = a.detach() * h + x[:, position]
            outputs.append(self.w(h))
        return torch.stack(outputs, 1)


@breaks("gradients", r"extend over 2 \+ 3 tokens: the gradient of the input that its state has read is wrong")
class DropsTheState(Decay):
    """Pieces are right and their gradients end at the state."""

    def extend(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return super().extend(x, state.detach())


@breaks("gradients", r"step over 2 \+ 6 tokens: the gradient of the input is wrong: .*the input that its state")
class DropsTheStateOfTokens(Decay):
    """The same of a layer that reads on token by token alone."""

    extend = None  # type: ignore[assignment]

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return super().step(x, state.detach())


@breaks("gradients", "forward over 5 tokens: the output has no gradient")
class OnlyReads(Keyed):
    """The whole layer is without gradients."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(x)


class ReadsOnWithoutGradients(Decay):
    """Its pieces are for inference: who trains through them gets an error, and no wrong number."""

    @torch.no_grad()
    def extend(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return super().extend(x, state)


class OnlySingleTriples(TriplesKeys):
    """The same fault in a layer that cannot read float64."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            raise RuntimeError("no float64")
        return super().forward(x)


class OnlyHalf(Keyed):
    """Kernels for bfloat16 alone."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.bfloat16:
            raise RuntimeError("bfloat16, please")
        return super().forward(x)


class OnlyHalfTriples(OnlyHalf, TriplesKeys):
    """The same with a false gradient."""
