"""What is read to test gradients: whole sequences, and pieces that go on from a state that is not zero.

Each is read with few tokens and with more than any block of an op has, so that gradients cross the borders of blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from seqloom.contracts.reading import in_pieces, in_steps, start
from seqloom.contracts.subject import Subject, draw, forward, streams
from seqloom.core.error_text import first_line
from seqloom.core.mixer import Mixer

LONG = 263
"""tokens of a long sequence: more than any block of an op, with a last block that is not full"""
BEFORE = 9
"""tokens that the state of a long piece has read"""
SHORT, SHORT_BEFORE = 3, 2
"""the same of a short piece; a short sequence has all 5"""
STEPS = 6
"""tokens that are read one by one, where a layer has no pieces"""
INPUT, EARLIER = "the input", "the input that its state has read"

Run = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""run(module, x, earlier) → outputs at x (B, T, D), after the earlier tokens (B, S, D), of which there may be none"""


@final
@dataclass(frozen=True)
class Reading:
    """One way to read a sequence."""

    context: int | None
    """the context to build the module with"""
    verb: str
    run: Run
    x: Tensor
    """the tokens whose outputs are compared (B, T, D)"""
    earlier: Tensor
    """the tokens before them, read into a state (B, S, D)"""

    @property
    def lengths(self) -> str:
        """How many tokens are read: 263, or 9 + 263 where a state has read 9."""
        before = f"{self.earlier.shape[1]} + " if self.earlier.shape[1] else ""
        return f"{before}{self.x.shape[1]}"

    @property
    def name(self) -> str:
        """The verb and the lengths."""
        return f"{self.verb} over {self.lengths} tokens"

    def inputs(self) -> dict[str, Tensor]:
        """The tensors that are read, by what they are; `earlier` where there is any."""
        return {INPUT: self.x, **({EARLIER: self.earlier} if self.earlier.shape[1] else {})}


def readings(subject: Subject) -> Iterator[Reading]:
    """The ways in which the subject reads: few tokens and many, and from a state where it streams."""
    module = subject.module()
    extends = streams(module) and callable(getattr(module, "extend", None))
    far, most = subject.far(BEFORE + LONG)
    near, fewest = subject.contexts[0], subject.fits(module, SHORT_BEFORE + SHORT)
    nothing = subject.draw(2, 0, subject.dim)
    for context, available, before, T in ((near, fewest, SHORT_BEFORE, fewest), (far, most, BEFORE, LONG)):
        yield Reading(context, "forward", whole, subject.draw(2, min(T, available), subject.dim), nothing)
        first = min(before, available // 2)
        if extends and first:
            piece = subject.draw(2, min(T, available - first), subject.dim, seed=2)
            yield Reading(context, "extend", _piece, piece, subject.draw(2, first, subject.dim, seed=1))
    if streams(module) and not extends:
        T = subject.fits(module, SHORT_BEFORE + STEPS) - SHORT_BEFORE
        if T > 0:
            piece = subject.draw(2, T, subject.dim, seed=2)
            yield Reading(near, "step", _tokens, piece, subject.draw(2, SHORT_BEFORE, subject.dim, seed=1))


def whole(module: nn.Module, x: Tensor, earlier: Tensor) -> Tensor:
    """The outputs at x of the whole sequence, which begins with the earlier tokens."""
    return forward(module, torch.cat([earlier, x], 1))[:, earlier.shape[1] :]


def _piece(module: nn.Module, x: Tensor, earlier: Tensor) -> Tensor:
    _, state = in_pieces(module, earlier, [])
    return in_pieces(module, x, [], state)[0]


def _tokens(module: nn.Module, x: Tensor, earlier: Tensor) -> Tensor:
    _, state = in_steps(module, earlier, start(module, len(x)), [False] * earlier.shape[1])
    return in_steps(module, x, state, [False] * x.shape[1])[0]


class NoGradient(Exception):
    """The outputs have no gradients; the message says why."""


def differentiate_output(run: Callable[[], Tensor], tensors: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The output, random weights of it, and the gradients of their sum of products to the tensors.

    Weights are rounded to bfloat16, so that they are the same for an output of any dtype. Raises NoGradient where the
    output has no gradient, or torch raises an error for it.
    """
    try:
        y = run()
        weights = draw(*y.shape, seed=3, dtype=torch.bfloat16, device=y.device)
        if not y.requires_grad:
            raise NoGradient("the output has no gradient")
        gradients = torch.autograd.grad(y, tensors, weights.to(y.dtype), allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        raise NoGradient(f"{type(error).__name__}: {first_line(error)}") from error
    return y.detach(), weights.double(), list(gradients)


def is_required(reading: Reading, module: nn.Module) -> bool:
    """Whether the outputs must have gradients: those of a mixer, and of any layer that reads a whole sequence."""
    return isinstance(module, Mixer) or reading.verb == "forward"
