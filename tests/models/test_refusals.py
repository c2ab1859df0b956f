"""The mixers of the layers, and the errors of a decoder: in one line, with what to do."""

from typing import Any

import pytest
import torch

from seqloom.core.config import read
from seqloom.models.decoder import Decoder, DecoderConfig
from tests.models.drawing import VOCAB, decoder, ids

SIZES: dict[str, Any] = {"vocab": VOCAB, "dim": 8, "depth": 4, "context": 6, "ffn": 16}
SHE, ME, TWO_HEADS = {"kind": "she"}, {"kind": "me"}, {"kind": "attention", "heads": 2}


def config(**settings: Any) -> DecoderConfig:
    made: DecoderConfig = read(DecoderConfig, {**SIZES, **settings})
    return made


@pytest.mark.parametrize(
    ("mixer", "depth", "kinds"),
    [
        (SHE, 3, ["she"] * 3),
        ([SHE], 3, ["she"] * 3),
        ([SHE, ME], 4, ["she", "me", "she", "me"]),
        ((TWO_HEADS, SHE, SHE), 5, ["attention", "she", "she", "attention", "she"]),
        ([SHE, ME, TWO_HEADS], 3, ["she", "me", "attention"]),
    ],
)
def test_the_mixers_of_the_layers(mixer: Any, depth: int, kinds: list[str]) -> None:
    made = config(mixer=mixer, depth=depth)
    assert [entry.kind for entry in made.mixers] == kinds
    model = Decoder(made)
    assert len(model.blocks) == depth
    own = [{name for name, _ in block.mixer.named_parameters()} for block in model.blocks]
    assert [("w_qkv.weight" in names, len(names)) for names in own] == [
        {"she": (False, 3), "me": (False, 1), "attention": (True, 2)}[kind] for kind in kinds
    ]
    assert len({id(block.mixer) for block in model.blocks}) == depth, "layers share no weights"
    settings = made.model_dump(mode="json")
    assert config(**settings) == made, "settings are read back as they were written"


def test_the_heads_of_a_layer_are_its_own() -> None:
    made = config(mixer=[TWO_HEADS, {"kind": "attention", "heads": 8}], depth=2)
    assert [block.mixer.heads for block in Decoder(made).blocks] == [2, 8]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixer": []}, "the list of mixers is empty"),
        ({"mixer": {"kind": "shee"}}, "did you mean 'she'"),
        ({"mixer": [SHE, {"kind": "mee"}]}, "did you mean 'me'"),
        ({"mixer": {"heads": 2}}, "a mixer needs a kind"),
        ({"mixer": {"kind": "she", "heads": 2}}, "heads"),
        ({"mixer": [SHE, ME, SHE, ME, SHE]}, "5"),
        ({"mixer": "she"}, "mixer"),
        ({"mixer": ["she"]}, "mixer"),
        ({"mixer": None}, "mixer"),
        ({}, "mixer"),
        ({"mixer": SHE, "depth": 0}, "depth"),
        ({"mixer": SHE, "dim": 0}, "dim"),
        ({"mixer": SHE, "context": 0}, "context"),
        ({"mixer": SHE, "dropout": 1.0}, "dropout"),
        ({"mixer": SHE, "std": 0.0}, "std"),
        ({"mixer": SHE, "position": "rotary"}, "rotary positions act on queries_keys, and she has no place for them"),
        ({"mixer": SHE, "position": "learnt"}, "learnt"),
        ({"mixer": SHE, "dpeth": 3}, "did you mean 'depth'"),
    ],
    ids=str,
)
def test_settings_of_models_that_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the words are looked for below
        config(**settings)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 300, message


def test_heads_of_models_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3: choose heads from 1, 2, 4, 8"):
        Decoder(config(mixer={"kind": "attention", "heads": 3}))


@pytest.mark.parametrize("wrong", [-1, VOCAB, 10**6])
def test_ids_outside_the_vocabulary(wrong: int) -> None:
    model = decoder("she")
    text = ids(2, 4)
    text[1, 2] = wrong
    before = model.start(2)
    for call in (lambda: model(text), lambda: model.extend(text, before), lambda: model.step(text[:, 2], before)):
        with pytest.raises(ValueError, match=r"token ids must lie in 0 … 12 \(the vocabulary\), not"):
            call()
    assert before.extra["length"].tolist() == [0, 0]


def test_a_state_of_other_rows() -> None:
    model = decoder("attention")
    for call in (lambda: model.extend(ids(2, 3), model.start(3)), lambda: model.step(ids(2), model.start(3))):
        with pytest.raises(ValueError, match="the state is of 3 rows, the input of 2"):
            call()
    with pytest.raises(TypeError, match="a model's state is a ModelState, not dict"):
        model.extend(ids(1, 2), {})


def test_models_of_no_rows_and_of_no_tokens() -> None:
    model = decoder("she")
    assert model(ids(2, 0)).shape == (2, 0, VOCAB)
    assert model(ids(0, 3)).shape == (0, 3, VOCAB)
    logits, state = model.extend(ids(2, 0), model.start(2))
    assert logits.shape == (2, 0, VOCAB)
    assert state.extra["length"].tolist() == [0, 0]


@pytest.mark.slow
def test_a_deep_copy_and_its_state_dict_are_the_same_model() -> None:
    model, other = decoder(TWO_HEADS), Decoder(decoder(TWO_HEADS).config).double()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert other.eval()(ids(2, 5)).equal(model(ids(2, 5)))
