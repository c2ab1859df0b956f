"""Layers of a user: one that keeps every promise, others that each break one, and objects that are no layer.

h_t = a h_{t-1} + x_t,   y_t = h_t W        a: one number for each channel
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, linear

BROKEN: list[tuple[type[nn.Module], str, str]] = []
"""(layer, the promise that it breaks, what the finding says)"""


def breaks(promise: str, says: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def note(kind: type[nn.Module]) -> type[nn.Module]:
        BROKEN.append((kind, promise, says))
        return kind

    return note


class Decay(nn.Module):
    """Sound."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.full((dim,), 0.5))
        self.w = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        h, outputs = torch.zeros_like(x[:, 0]), []
        for position in range(x.shape[1]):
            after = self.a * h + x[:, position]
            h = after if keep is None else torch.where(keep[:, position, None], after, h)
            outputs.append(self.w(h))
        return torch.stack(outputs, 1)

    def start(self, batch: int) -> Tensor:
        return torch.zeros(batch, len(self.a), dtype=self.a.dtype)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.a * state + x
        return self.w(state), state

    def extend(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs = []
        for position in range(x.shape[1]):
            y, state = self.step(x[:, position], state)
            outputs.append(y)
        return torch.stack(outputs, 1) if outputs else x, state

    def cost(self, T: int) -> Cost:
        dim = len(self.a)
        return Cost(mul=T * dim, add=T * dim, params=dim) + linear(T, dim, dim)


@breaks("causality", r"inputs from \d+ of \d+ on moved by .* output \d+ moved by")
class LooksAhead(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) + 1e-6 * x.roll(-1, 1)


@breaks("causality", r"output \d+ has a gradient to later inputs of")
class LeaksGradient(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        last = x[:, -1:]
        return super().forward(x, keep) + (last - last.detach())


@breaks("causality", "does not depend on its own input")
class ReadsNothing(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) * 0


@breaks("causality", r"inputs from \d+ of 257 on moved by 100, output \d+ moved by")
class LooksAheadWhenLong(Decay):
    """Right up to 256 tokens."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = super().forward(x, keep)
        return y + 1e-6 * x.roll(-1, 1) if x.shape[1] > 256 else y


@breaks("causality", r"outputs before \d+ of \d+ have a gradient to later inputs of")
class LeaksGradientInLaterBlocks(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        later = torch.cat([torch.zeros_like(x[:, :256]), x[:, 256:].roll(-1, 1)], 1)
        return super().forward(x, keep) + (later - later.detach())


@breaks("rows", r"row \d next to others is off by")
class SharesRows(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) + 1e-8 * x.mean(0, keepdim=True)


@breaks("rows", "next to rows of nan is off by nan")
class SharesScale(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) + 0 * x.sum(0, keepdim=True)


@breaks("padding", r"row \d(?: at batch 1)?, keeping \.+x+, is off by")
class CountsPadding(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        position = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        return super().forward(x, keep) + position


@breaks("padding", "with 1e.06 in dropped positions, the output is off by")
class ReadsPadding(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        dropped = 0.0 if keep is None else torch.where(keep[..., None], 0.0, x).clamp(min=100.0) - 100.0
        return super().forward(x, keep) + torch.as_tensor(dropped).sum()


@breaks("gaps", r"row \d(?: at batch 1)?, keeping .*\..*, is off by")
class DecaysInGaps(Decay):
    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(x if attention_mask is None else x * attention_mask[..., None])


@breaks("pieces", r"cut at \[.*\] from token \d+ on, the output is off by")
class ForgetsPieces(Decay):
    def extend(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return super().extend(x, torch.zeros_like(state))


@breaks("steps", "by steps from token 1 on, the output is off by")
class StepsOtherwise(Decay):
    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, after = super().step(x, state)
        return y, after * (1 - 1e-6)


@breaks("price", r"the price of 1 tokens says mul 71, the reference executes 72")
class ForgetsAProduct(Decay):
    def cost(self, T: int) -> Cost:
        return super().cost(T) + Cost(mul=-T)


@breaks("price", "the price says 71 parameters, the module has 72")
class ForgetsAParameter(Decay):
    def cost(self, T: int) -> Cost:
        return super().cost(T) + Cost(params=-1)


@breaks("bfloat16", "bfloat16 in, float32 out")
class AnswersWide(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = super().forward(x, keep)
        return y.float() if y.dtype == torch.bfloat16 else y


@breaks("bfloat16", "the relative error is")
class RoundsBadly(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = super().forward(x, keep)
        return y * 1.05 if y.dtype == torch.bfloat16 else y


@breaks("compile", "it is not one graph")
class AsksItsNumbers(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) if float(x.detach().sum()) > 0 else super().forward(x, keep) * 1.0


@breaks("compile", "is off by")
class OtherWhenCompiled(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = super().forward(x, keep)
        return y * 1.001 if torch.compiler.is_compiling() else y


@breaks("rows", "raised RuntimeError: one row at a time, please")
class TakesOneSize(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        if len(x) == 1:
            raise RuntimeError("one row at a time, please\nnot zero")
        return super().forward(x, keep)


class Unpriced(Decay):
    """Runs an operator of torch that has no price here."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep) + torch.erfinv(torch.zeros_like(x))


class Bare(nn.Module):
    """No mask, no steps, no price; its output starts at zero."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.w = nn.Linear(d_model, d_model)
        nn.init.zeros_(self.w.weight)
        nn.init.zeros_(self.w.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.w(x.cumsum(1))


class Limited(Bare):
    """Takes no more than its context."""

    def __init__(self, dim: int, context: int) -> None:
        super().__init__(dim)
        self.context = context

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > self.context:
            raise ValueError("too long")
        return super().forward(x)


class Single(Bare):
    """Computes in float32, whatever it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return self.w(x.float().cumsum(1).to(x.dtype))


class OnlySingle(Bare):
    """Cannot read float64."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            raise RuntimeError("no float64")
        return super().forward(x)


class Configured(Bare):
    def __init__(self, config: dict[str, int]) -> None:
        super().__init__(config["dim"])


class Pair(Bare):
    def forward(self, x: Tensor) -> tuple[tuple[Tensor, None], None]:  # type: ignore[override]  # as other packages' layers
        return (x, None), None


class Halves(Bare):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., ::2]


class Infinite(Bare):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 0


class Uninitialized(Bare):
    made = 0

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        Uninitialized.made += 1
        nn.init.constant_(self.w.weight, Uninitialized.made)


class Fails(nn.Module):
    def __init__(self) -> None:
        raise KeyError("nothing\nmore")


class Plain:
    """No module."""


def made(dim: int, heads: int = 2) -> nn.Module:
    if dim % heads:
        raise ValueError(f"{heads} heads do not divide {dim}")
    return Decay(dim)


def makes_nothing() -> None:
    return None


instance = Decay(8)
number = 7


class Exits(Decay):
    """Ends the program where it is read in one row, as a script does that was meant to be run."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        if len(x) == 1:
            sys.exit(0)
        return super().forward(x, keep)


class ExitsAtOnce(Decay):
    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        sys.exit(0)


class ExitsWhenBuilt(Decay):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        sys.exit(0)


class Half(Bare):
    """Reads into fewer channels, and writes all."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.w = nn.Linear(dim, dim // 2)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).repeat(1, 1, 2)


class Either(Bare):
    """Has both forms, by an argument."""

    def __init__(self, dim: int, causal: bool = True) -> None:
        super().__init__(dim)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        return self.w(x.cumsum(1) if self.causal else x.sum(1, keepdim=True).expand_as(x))
