"""A mixer that says that it equals another one gives its outputs, and the others do not say so."""

from typing import Any

import pytest
import torch

from seqloom.analysis.covering import same_as, sentence
from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds, mixer_config
from seqloom.training.settings import resolve
from tests.kinds import FORMS

DIM = 8
BORDERS: list[tuple[str, dict[str, Any], bool, int, str]] = [
    ("longformer", {}, True, 256, "attention"),
    ("longformer", {}, False, 129, "attention"),
    ("bigbird", {}, True, 384, "attention"),
    ("image", {}, True, 512, "attention"),
    ("sparse", {"length": 9, "use": "merged"}, True, 10, "attention"),
    ("attention", {"window": 20}, True, 20, "attention"),
    ("attention", {"window": 20}, False, 20, "attention"),
    ("attention", {"pattern": "local", "window": 20}, True, 20, "attention"),
    ("aft_local", {}, True, 32, "aft_full"),
    ("aft_local", {}, False, 32, "aft_full"),
]
"""kinds, settings and forms, with the longest context that their pattern covers"""


def built(kind: str, settings: dict[str, Any], context: int, causal: bool) -> Mixer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return mixer_config({"kind": kind, **settings}).build(DIM, context, causal).double().eval()


def distance(mixer: Mixer, other: str, context: int, causal: bool) -> float:
    """The largest difference between the outputs of a mixer and of `other` with the same weights."""
    settings = {name: value for name in ("heads", "bias_dim") if (value := getattr(mixer, name, None)) is not None}
    plain = built(other, settings, context, causal)
    plain.load_state_dict(mixer.state_dict())
    x = torch.randn(1, context, DIM, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    with torch.no_grad():
        return float((mixer(x) - plain(x)).abs().max())


@pytest.mark.parametrize(("kind", "settings", "causal", "longest", "equal"), BORDERS)
def test_it_equals_the_other_up_to_the_context_that_its_pattern_covers(
    kind: str, settings: dict[str, Any], causal: bool, longest: int, equal: str
) -> None:
    inside = built(kind, settings, longest, causal)
    assert inside.same_as == equal
    assert distance(inside, equal, longest, causal) < 1e-12
    beyond = built(kind, settings, longest + 1, causal)
    assert beyond.same_as is None
    if equal == "attention":  # the table of aft_local has a size of its own
        assert distance(beyond, equal, longest + 1, causal) > 1e-6


@pytest.mark.parametrize(("kind", "causal"), FORMS)
def test_whatever_says_so_is_equal(kind: str, causal: bool) -> None:
    for example in kinds()[kind].examples:
        if not causal and not mixer_config({"kind": kind, **example}).has_bidirectional:
            continue
        mixer = built(kind, example, 4, causal)
        if mixer.same_as is not None and mixer.same_as != kind:
            assert distance(mixer, mixer.same_as, 4, causal) < 1e-12


def test_of_a_model_every_layer_must_be_equal() -> None:
    mixers = (
        "model.mixer=[{kind: longformer, window: 8}, {kind: longformer}, {kind: aft_local, window: 16}, {kind: he}]"
    )
    changes = [mixers, "model.depth=4", "model.position=none"]
    with torch.device("meta"):
        assert same_as(resolve("tiny", changes).model.build()) == {"aft_local": "aft_full"}
        assert same_as(resolve("tiny", [*changes, "model.context=8"]).model.build()) == {
            "longformer": "attention", "aft_local": "aft_full",
        }  # fmt: skip
        assert same_as(resolve("ngram/kneser_ney").model.build()) == {}


def test_what_is_said() -> None:
    assert sentence("bigbird", "attention", 1024) == (
        "the pattern of bigbird covers the context of 1,024 tokens: it equals attention here"
    )
    assert sentence("attention", "attention", 8).endswith("it equals attention without a pattern here")
