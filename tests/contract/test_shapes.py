"""Every verb once, with the annotated shapes: `make test` runs this file again with shapes checked."""

import pytest
import torch

from seqloom.ops.past.pack import pack
from tests.conftest import SHAPES
from tests.contract.cases import DIM, Make, draw, every_mixer, fits, streams


def check_shapes(make: Make) -> None:
    """Each verb with and without dropped tokens, beyond the context, and back: outputs are as their inputs."""
    mixer = make(context=4)
    T = fits(mixer, 6)
    x, keep = draw(3, T, DIM).requires_grad_(), torch.arange(T).expand(3, T) % 3 != 1
    for mask in (None, keep):
        y = mixer(x, mask)
        assert y.shape == x.shape
        y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    if not streams(make):
        return
    with torch.no_grad():
        for mask in (None, keep):
            piece, state = mixer.extend(x[:, : T - 2], mixer.start(3), mask if mask is None else mask[:, : T - 2])
            assert piece.shape == (3, T - 2, DIM)
            for position, reuse in ((T - 2, False), (T - 1, True)):
                token, state = mixer.step(x[:, position], state, reuse=reuse)
                assert token.shape == (3, DIM)
            mixer.check_state(mixer.trim(state), 3)
    for view in mixer.plots(x.detach()):
        assert view.values.ndim == len(view.axes)


@every_mixer
def test_every_verb_keeps_its_shapes(make: Make) -> None:
    check_shapes(make)


@pytest.mark.skipif(not SHAPES, reason="shapes are checked with SEQLOOM_SHAPES=1")
def test_a_shape_that_is_not_the_annotated_one_is_found() -> None:
    from jaxtyping import TypeCheckError

    with pytest.raises(TypeCheckError):
        pack(draw(2, 3, DIM), torch.ones(2, 4, dtype=torch.bool))
