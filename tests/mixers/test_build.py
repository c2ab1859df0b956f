"""`MixerConfig.build`: what a model passes to a mixer's settings."""

from typing import Any, ClassVar, Literal

import pytest

from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.attention.attention import AttentionConfig, BidirectionalAttention
from seqloom.models.decoder import Decoder, DecoderConfig


class Whole(MixerConfig):
    """A mixer that has a bidirectional form alone, and keeps what it was asked for."""

    kind: Literal["whole"] = "whole"
    traits: ClassVar = Traits(causal="never", streams=False, state="none")

    def make(self, layer: Layer) -> Mixer:
        mixer = BidirectionalAttention(AttentionConfig(heads=2), layer)
        mixer.asked = layer  # type: ignore[assignment]
        return mixer


@pytest.mark.parametrize("kind", [kind for kind, config in kinds().items() if config.traits.causal == "always"])
def test_without_a_bidirectional_form_there_is_an_error(kind: str) -> None:
    config = kinds()[kind]()
    with pytest.raises(ValueError, match=rf"^{kind} is causal: it has no bidirectional form; these have: .+$"):
        config.build(8, 6, causal=False)


def test_a_decoder_takes_no_mixer_without_a_causal_form() -> None:
    with pytest.raises(ValueError, match=r"^whole is bidirectional: it has no causal form, so a decoder cannot"):
        Decoder(DecoderConfig(vocab=5, dim=8, depth=1, context=4, mixer=Whole()))


@pytest.mark.parametrize("kind", [kind for kind, config in kinds().items() if config.traits.causal == "never"])
def test_a_kind_without_a_causal_form_names_one_that_has_one(kind: str) -> None:
    nearest = kinds()[kind].nearest
    assert nearest is not None
    assert kinds()[nearest].traits.causal != "never"
    with pytest.raises(ValueError, match=f"{kind} is bidirectional.* the nearest kind that has one is {nearest}$"):
        mixer_config({"kind": kind}).build(8, 6)


def test_no_settings_choose_the_form() -> None:
    assert [kind for kind, config in kinds().items() if "causal" in config.model_fields] == []


def test_a_mixer_receives_its_layer_when_it_is_built() -> None:
    assert Whole().build(8, 6, causal=False).asked == Layer(8, 6, False, 0, 1)
    assert Whole().build(8, None, False, layer=2, depth=3).asked == Layer(8, None, False, 2, 3)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"layer": 3, "depth": 3}, ValueError, "there is no layer 3 in 3: layers count from 0"),
        ({"layer": -1}, ValueError, "layer must be 0 or more, not -1"),
        ({"depth": 0}, ValueError, "depth must be 1 or more, not 0"),
        ({"layer": 1.0}, TypeError, "layer must be a whole number"),
    ],
)
def test_a_layer_that_there_is_not(asked: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mixer_config({"kind": "rwkv"}).build(8, 6, **asked)
