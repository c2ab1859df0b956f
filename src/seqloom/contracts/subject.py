"""The subject of a verification: a mixer or any nn.Module from (B, T, D) to (B, T, D), and how to build and call it.

context   the sizes that a mixer is built with: a small one, and one in which the lag sum runs through the FFT
mask      the argument of `forward` that takes a bool (B, T), True for a real token; None where there is none
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from seqloom.core.mixer import Mixer
from seqloom.mixers.layer_arguments import mask_argument
from seqloom.ops import backends

CPU = torch.device("cpu")
POWERS = tuple(2**n for n in range(10, 4, -1))
"""the lengths 1024 to 32, which are usual limits of a layer"""
LENGTHS = (*(2**n + more for n in range(5, 11) for more in (-1, 0, 1)), 1100)
"""around powers of two, where the blocks of an op begin and end"""


class Build(Protocol):
    """build(context, dtype) → the module, with the same parameters and buffers at every call."""

    def __call__(self, context: int | None, dtype: torch.dtype, /) -> nn.Module:
        """The module for this context, in this dtype."""


@final
@dataclass(frozen=True)
class Subject:
    """A module under test."""

    name: str
    dim: int
    build: Build
    contexts: tuple[int | None, ...] = (5, 16)
    """built with each of them in turn; the last is the widest"""
    dtype: torch.dtype = torch.float64
    """the dtype of parameters and inputs in comparisons"""
    working: torch.dtype = torch.float64
    """the narrowest dtype in which it computes then"""
    scale: float = 1.0
    """the scale of its outputs: smaller outputs are compared at this scale"""
    causal: bool = True
    longest: int | None = None
    """the most tokens it takes; for a mixer, its traits have the number"""
    exact: bool = False
    """whether the direct forms must be causal exactly, and not up to rounding"""
    device: torch.device = CPU
    """where parameters and inputs are"""
    free: bool = True
    """whether `build` may be given another context than those: the user has named none"""
    lengths: tuple[int, ...] = LENGTHS
    """the lengths of long sequences whose causality is tested"""
    reference: Build | None = None
    """the same layer, written plainly, on the CPU: what its outputs and gradients are compared with"""

    def module(self, context: int | None = None) -> nn.Module:
        """The module in the dtype of the comparison, of the smallest context unless another is given."""
        return self.build(self.contexts[0] if context is None else context, self.dtype)

    def fits(self, module: nn.Module, T: int) -> int:
        """T, or the longest sequence that the module takes."""
        longest = module.traits.longest if isinstance(module, Mixer) else self.longest
        return T if longest is None else min(T, longest)

    def far(self, tokens: int) -> tuple[int | None, int]:
        """The context to build the module with for a sequence of up to `tokens`, and the most tokens it takes of these.

        A layer that declares no longest sequence may have one still: then it is read to see whether it raises an error.
        """
        last = self.contexts[-1]
        shorter = [length for length in (*POWERS, last) if length is not None and length < tokens]
        for most in (tokens, *sorted(shorter, reverse=True)):
            context = most if self.free else last
            limit = most if self.free else self.longest
            try:
                module = self.module(context)
                if isinstance(module, Mixer):
                    return context, self.fits(module, most)
                if limit is None or most <= limit:
                    with torch.no_grad():
                        module(self.draw(1, most, self.dim))
                    return context, most
            except Exception:  # whatever a layer of a user raises for a sequence or a context that is too long
                continue
        module = self.module(last)
        return last, self.fits(module, (last or 16) + 4)

    @property
    def eps(self) -> float:
        """The rounding of one operation."""
        return torch.finfo(self.working).eps

    @property
    def rounding(self) -> float:
        """The allowed difference between two orders of summation, relative to the largest number."""
        return {torch.float64: 1e-10, torch.float32: 1e-5}.get(self.working, 2e-2)

    @property
    def strict(self) -> float:
        """The allowed difference between sums in the same order, relative to the largest number."""
        return min(self.rounding, max(self.rounding / 100, 32 * self.eps))

    def draw(self, *shape: int, seed: int = 0) -> Tensor:
        """Normal numbers that depend on the shape and the seed alone."""
        return draw(*shape, seed=seed, dtype=self.dtype, device=self.device)

    def draw_with_repeats(self, B: int, T: int) -> Tensor:
        """Tokens (B, T, dim), in every second row two that take turns, so that choices among tokens have ties."""
        x = self.draw(B, T, self.dim)
        x[1::2] = x[1::2, torch.arange(T) % 2]
        return x


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    """Normal numbers in `dtype` on `device` that depend on the shape and the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device, dtype)


def at_each_size(read: Callable[[nn.Module, int], None], subject: Subject, small: int = 4, wide: int = 5) -> None:
    """Calls read(module, T) at the first context plus `small` tokens, and at the last plus `wide`, by the FFT there."""
    first, last = subject.contexts[0], subject.contexts[-1]
    sizes: list[tuple[int | None, int, dict[str, str]]] = [(first, small, {})]
    if len(subject.contexts) > 1:
        sizes.append((last, wide, {"lag_sum": "fft"}))
    for context, more, forced in sizes:
        module = subject.module(context)
        with backends.use(**forced):
            read(module, subject.fits(module, (context or 16) + more))


def forward(module: nn.Module, x: Tensor, keep: Tensor | None = None) -> Tensor:
    """The whole sequence; dropped tokens by the mask that the module takes."""
    y: Tensor = module(x) if keep is None else module(x, **{mask_argument(module) or "keep": keep})
    return y


def streams(module: nn.Module) -> bool:
    """Whether the module reads on from a state: it has `start(batch)` and `step(x, state)`."""
    if isinstance(module, Mixer):
        return module.traits.streams
    return callable(getattr(module, "start", None)) and callable(getattr(module, "step", None))


def steps(module: nn.Module, x: Tensor, state: Any, reuse: bool = False) -> tuple[Tensor, Any]:
    """One token (B, D) read from a state; `reuse` is for mixers alone."""
    step: Any = module.step
    y, state = step(x, state, reuse=reuse) if isinstance(module, Mixer) else step(x, state)
    return y, state


def working_dtype(module: nn.Module, x: Tensor) -> torch.dtype:
    """The narrowest floating dtype in which the forward on x computes."""
    with torch.no_grad(), _Narrowest() as watch:
        module(x)
    return watch.dtype


@final
class _Narrowest(TorchDispatchMode):
    """Watches torch's operations: `dtype` is the narrowest floating dtype of their results that are not scalars."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not type it
        self.dtype = torch.float64

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            is_float = isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.ndim
            if is_float and leaf.itemsize < self.dtype.itemsize:
                self.dtype = leaf.dtype
        return out
