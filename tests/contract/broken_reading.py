"""Mixers that read wrongly: later tokens, pieces, steps, gradients through pieces."""

import torch
from torch import Tensor

from seqloom.core.mixer import Traits
from seqloom.core.state import State
from seqloom.ops.past.ring import write_
from tests.contract.faults import caught_by
from tests.contract.sound import Average
from tests.contract.sound_others import Ahead, Cached, Short


@caught_by(check_causal="moved by")
class LeaksALittle(Average):
    """Adds 1e-6 of the mean of the whole sequence."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) + 1e-6 * x.mean(1, keepdim=True)


@caught_by(check_causal="moved by .* allowed [1-9].*e-")
class LeaksWhereTheBoundIsLoose(Average):
    """The same, only in long sequences, where a bound for rounding is allowed."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) + (1e-6 * x.mean(1, keepdim=True) if x.shape[1] > 16 else 0.0)


@caught_by(check_causal="moved by")
class LeaksTheNext(Average):
    """An output sees one token ahead, through a shift of the wrong sign."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) + 1e-6 * x.roll(-1, 1)


@caught_by(check_causal="has a gradient")
class LeaksGradient(Average):
    """Values are causal, but the forward adds and subtracts a term of the last token, which leaves its gradient."""

    def mix(self, x: Tensor) -> Tensor:
        last = x[:, -1:]
        return super().mix(x) + (last - last.detach())


@caught_by(check_causal="DID NOT RAISE")
class SaysItLooksAhead(Average):
    """Its trait is never causal, but it reads from a state."""

    traits = Traits(causal="never", streams=False, state="none")


@caught_by(check_causal="output 0 does not depend on input 1")
class SeesItsOwnTokenOnly(Ahead):
    """Its trait is never causal, but no output depends on another token."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x.flatten(0, 1)[:, None], None if keep is None else keep.flatten()[:, None]).view_as(x)


@caught_by(check_longest="DID NOT RAISE")
class CutsWhatIsTooLong(Short):
    """Reads beyond its longest sequence without an error."""

    def stop(self, last: int) -> None:
        pass


@caught_by(check_pieces="off by", check_gradients_through_pieces="off by")
class Forgets(Average):
    """Each piece ignores the state."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        return super().carry(x, {**state, "total": torch.zeros_like(state["total"])}, lengths)


@caught_by(check_pieces="off by")
class CountsEmptyPieces(Average):
    """A piece of no tokens counts as one."""

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        y, state = super().extend(x, state, keep)
        return y, {**state, "length": state["length"] + (x.shape[1] == 0)}


@caught_by(check_step="off by")
class StepsOneLate(Average):
    """A step with reuse divides by the tokens before it."""

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        y, after = super().advance(x, state, reuse)
        return (self.read(after["total"], (after["length"] - 1).clamp(min=1)) if reuse else y), after


@caught_by(check_step="off by", check_state_size="another number of tokens")
class DropsWhatIsFull(Cached):
    """A full cache is overwritten from its beginning instead of growing."""

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        if not reuse or state["cache"].shape[1] == 0:
            return super().advance(x, state, reuse)
        cache, length = write_(state["cache"], state["length"], x), state["length"] + 1
        return self.read(cache.sum(1), length), {"cache": cache, "length": length}


@caught_by(
    check_gradients_through_pieces="off by",
    check_refusals="carries no gradient",
    check_gradients=r"extend over 2 \+ 3 tokens: the gradient of the input that its state has read is wrong",
)
class CutsGradients(Average):
    """The state of a piece carries no gradient."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        return y, {name: tensor.detach() for name, tensor in after.items()}


@caught_by(check_shapes="torch.Size")
class StepsByPieces(Average):
    """A step returns a sequence of one token."""

    def step(self, x: Tensor, state: State, *, reuse: bool = False) -> tuple[Tensor, State]:
        y, state = super().step(x, state, reuse=reuse)
        return y[:, None], state
