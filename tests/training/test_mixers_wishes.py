"""What a mixer may ask of the loop: auxiliary losses that are trained on, and a call after each update."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.models.decoder import Decoder
from seqloom.training.settings import resolve
from tests.training.stepping import decoder, descent, updates, windows, with_loss


def stepped(model: Decoder, *changes: str) -> tuple[float, Tensor]:
    update = updates(model, descent(model, 0.1), windows(), resolve("tiny", changes).training)
    return update(0).loss, model.blocks[0].mixer.get_parameter("w_ext").detach()


def asking(extra: float) -> Decoder:
    model = decoder("me", dropout=0.0)
    mixer = model.blocks[0].mixer
    with_loss(mixer, lambda: extra * mixer.get_parameter("w_ext").sum())
    return model


@pytest.mark.slow
def test_an_auxiliary_loss_is_learned_from() -> None:
    for changes in ((), ("training.accumulate=2",)):
        _, plain = stepped(asking(0.0), *changes)
        _, pulled = stepped(asking(1.0), *changes)
        assert torch.allclose(pulled, plain - 0.1, atol=1e-6)


def test_an_auxiliary_loss_is_no_part_of_the_reported_loss() -> None:
    plain, _ = stepped(asking(0.0))
    asked, _ = stepped(asking(1000.0))
    assert math.isclose(asked, plain, rel_tol=1e-6), "the loss in the rows is nats a token"


def test_a_loss_of_the_second_sublayer_is_trained_on_too() -> None:
    model = decoder("me", dropout=0.0)
    first, channel = model.blocks[0].mixer.get_parameter("w_ext"), model.blocks[1].ffn_sublayer
    assert channel is not None
    with_loss(channel, first.sum)
    _, pulled = stepped(model)
    _, plain = stepped(asking(0.0))
    assert torch.allclose(pulled, plain - 0.1, atol=1e-6)


@pytest.mark.parametrize("sublayer", [0, 1])
def test_after_update_is_called_for_each_sublayer(sublayer: int) -> None:
    model = decoder("me")
    steps: list[int] = []
    model.blocks[1].sublayers[sublayer].after_update = lambda step, statistics: steps.append(step)  # type: ignore[method-assign]
    update = updates(model, descent(model, 0.1), windows(), resolve("tiny").training)
    for step in range(3):
        update(step)
    assert steps == [1, 2, 3]
