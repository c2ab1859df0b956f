"""Layers of a mixer without a second sublayer, as Mamba's, and norms without a mean."""

import pytest
import torch
from torch import Tensor

from seqloom.core.state import flat
from seqloom.models.decoder import Decoder
from tests.models.drawing import DIM, decoder, ids
from tests.models.test_reading import KEEP, near

KINDS = ("rwkv", "she", "attention")


def made(kind: str) -> Decoder:
    model = decoder(kind, channel="none", norm="rms", position="none").requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.uniform_(0.5, 2)
    return model


def rms(x: Tensor, gain: Tensor) -> Tensor:
    return x / ((x**2).sum(-1, keepdim=True) / DIM + 1e-5).sqrt() * gain


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_stack_of_mixers(kind: str) -> None:
    model, text = made(kind), ids(2, 7)
    x = model.token.weight[text] * DIM**0.5
    for block in model.blocks:
        x = x + block.mixer(rms(x, block.get_parameter("norm_1.weight")))
    near(model(text), model.head(rms(x, model.get_parameter("norm.weight"))))
    assert not [
        name for name, _ in model.named_parameters() if "ffn" in name or "norm_2" in name or "norm.bias" in name
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_and_steps_of_models_of_mixers_alone_are_the_whole(kind: str) -> None:
    model, text = made(kind), ids(2, 9)
    expected = model(text)
    first, state = model.extend(text[:, :5], model.start(2))
    rest, after = model.extend(text[:, 5:], state)
    near(torch.cat([first, rest], 1), expected)
    assert flat(model.trim(after)).keys() == flat(model.trim(state)).keys() == flat(model.start(2)).keys()
    for position in range(5, 9):
        logits, state = model.step(text[:, position], state, reuse=True)
        near(logits, expected[:, position])


def test_dropped_tokens_of_models_of_mixers_alone_are_as_if_never_written() -> None:
    model, text = made("rwkv"), ids(*KEEP.shape)
    whole = model(text, KEEP)
    for row, keep in enumerate(KEEP):
        near(whole[row][keep], model(text[row, keep][None])[0])
