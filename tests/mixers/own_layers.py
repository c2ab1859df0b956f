"""Layers of a user, of which some cannot stand where a mixer stands."""

from typing import Any

import torch
from torch import Tensor, nn


class Convolution(nn.Module):
    """Causal, of whole sequences."""

    def __init__(self, d_model: int, width: int = 3, context: int = 0) -> None:
        super().__init__()
        self.width, self.context = width, context
        self.conv = nn.Conv1d(d_model, d_model, width)

    def forward(self, x: Tensor) -> Any:
        padded = nn.functional.pad(x.transpose(1, 2), (self.width - 1, 0))
        return self.conv(padded).transpose(1, 2)


class ReturnsMore(Convolution):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), None


class LooksAhead(Convolution):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).roll(-1, 1)


class CutsTheShape(Convolution):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[:, 1:]


class IgnoresTheDtype(Convolution):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).float()


class KeepsState(Convolution):
    last = 0.0

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x) + self.last
        self.last = float(x.mean())
        return y


class CountsCalls(Convolution):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return super().forward(x)


class StepsOtherwise(Convolution):
    def start(self, batch: int) -> Tensor:
        return torch.zeros(batch, 1)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return x, state


class Grows(nn.Module):
    """The mean of all tokens so far, which it keeps as they are."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.w(torch.stack([x[:, : t + 1].sum(1) / (t + 1) for t in range(x.shape[1])], 1))

    def start(self, batch: int) -> Tensor:
        return torch.zeros(batch, 0, self.w.in_features)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.cat([state, x[:, None]], 1)
        return self.w(state.mean(1)), state


class Both(nn.Module):
    """Reads in both directions, or causally."""

    def __init__(self, dim: int, causal: bool = True) -> None:
        super().__init__()
        self.w, self.causal = nn.Linear(dim, dim), causal

    def forward(self, x: Tensor) -> Tensor:
        return self.w(x.cumsum(1) if self.causal else x.sum(1, keepdim=True).expand_as(x))


class Whole(nn.Module):
    """Reads in both directions, with a mask."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x if mask is None else torch.where(mask[..., None], x, 0.0)
        return self.w(x.sum(1, keepdim=True).expand_as(x))


class Sorted(nn.Module):
    """An operation without a price here, and no weights."""

    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x + torch.special.bessel_j0(x)


class LooksAtValues(Convolution):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x) * (2.0 if float(x[0, 0, 0]) > 1e9 else 1.0)


class Raises(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        raise RuntimeError("no luck\ntoday")


def make_layer(dim: int) -> nn.Module:
    return Whole(dim)
