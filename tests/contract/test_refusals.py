"""Verbs and arguments that do not fit raise ValueError, in one line."""

import pytest
import torch

from tests.contract.cases import DIM, Make, draw, every_mixer, streams

try:
    from jaxtyping import TypeCheckError
except ImportError:  # pragma: no cover  older jaxtyping
    TypeCheckError = ValueError  # type: ignore[misc,assignment]


class Anything(str):
    """The words of the shape hook, which are not ours: any word counts as among them."""

    def __contains__(self, word: object) -> bool:
        return True


def no(call) -> str:
    """What the call raises, ValueError or TypeError in one line; the shape hook may be the first to object."""
    with pytest.raises((ValueError, TypeError, TypeCheckError)) as caught:
        call()
    message = str(caught.value)
    assert message
    if isinstance(caught.value, TypeCheckError):
        return Anything(message)
    assert "\n" not in message
    return message


def check_refusals(make: Make) -> None:
    """Wrong dim, wrong number of axes, keep of a wrong shape or type, reuse of a state with gradients."""
    mixer = make()
    x, keep = draw(2, 4, DIM), torch.ones(2, 4, dtype=torch.bool)
    wrong = [draw(2, 4, DIM + 1), draw(2, 4, 1), draw(2, DIM), draw(DIM), draw(1, 2, 4, DIM)]
    masks = [keep[:, :3], keep[:1], keep[0], keep[None], keep.double(), keep[:, :, None], torch.ones(4, 2) > 0]
    masks += [keep.float()]
    for bad in wrong:
        no(lambda bad=bad: mixer(bad))
    for mask in masks:
        no(lambda mask=mask: mixer(x, mask))
    if not streams(make):
        return
    for bad in wrong:
        no(lambda bad=bad: mixer.extend(bad, mixer.start(len(bad))))
    for mask in masks:
        no(lambda mask=mask: mixer.extend(x, mixer.start(2), mask))
    for bad in (draw(2, DIM + 1), draw(2, 1), draw(2, 1, DIM), draw(DIM)):
        no(lambda bad=bad: mixer.step(bad, mixer.start(len(bad))))
    _, state = mixer.extend(x.requires_grad_(), mixer.start(2))
    if not any(state[name].numel() for name in mixer.state_spec):  # nothing but a count, which has no gradient
        return
    assert any(tensor.requires_grad for tensor in state.values()), "the state of a piece carries no gradient"
    no(lambda: mixer.step(draw(2, DIM), state, reuse=True))


def check_keep_is_bool(make: Make) -> None:
    """A mask of integers is refused too: 2 would count as two tokens."""
    mixer = make()
    x, keep = draw(2, 4, DIM), torch.ones(2, 4, dtype=torch.bool)
    for dtype in (torch.long, torch.int32, torch.uint8):
        no(lambda dtype=dtype: mixer(x, keep.to(dtype)))
        no(lambda dtype=dtype: mixer(x, 2 * keep.to(dtype)))
        if mixer.traits.streams:
            no(lambda dtype=dtype: mixer.extend(x, mixer.start(2), keep.to(dtype)))


@every_mixer
def test_refusals(make: Make) -> None:
    check_refusals(make)


@every_mixer
def test_a_mask_of_integers_is_an_error(make: Make) -> None:
    check_keep_is_bool(make)
