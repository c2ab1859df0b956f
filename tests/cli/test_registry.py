"""registry.json equals the classes, and nothing that reads it loads torch."""

import json

import pytest

from seqloom.cli import described, registry
from seqloom.mixers import FAMILIES, kinds
from seqloom.training.config import RunConfig
from tests.test_readme import ADDED, KIND, added

OUR_KINDS = [name for name, config in kinds().items() if config.__module__.startswith("seqloom.mixers.")]


@pytest.mark.slow
def test_registry_json_is_current() -> None:
    assert registry.PATH.read_text(encoding="utf-8") == described.text(), "run: python -m seqloom.cli.described"


@pytest.mark.parametrize("kind", OUR_KINDS)
def test_every_mixer_is_described_whole(kind: str) -> None:
    mixer = registry.read()["mixers"][kind]
    config = kinds()[kind]
    assert mixer["family"] in FAMILIES
    assert 0 < len(mixer["summary"]) <= described.WIDEST
    assert not mixer["summary"].endswith("…")
    assert mixer["source"]
    assert "Source:" not in mixer["equation"]
    assert mixer["traits"]["state"] == config.traits.state
    assert [each["name"] for each in mixer["settings"]] == [name for name in config.model_fields if name != "kind"]
    for setting in mixer["settings"]:
        assert setting["description"]
        assert setting["types"]


def test_each_kind_of_a_file_with_several_has_its_own_equation() -> None:
    mixers = registry.read()["mixers"]
    assert mixers["me"]["equation"].strip() == "y_i = Σ_{k=0}^{L-1} W_ext[k] x_{i-k}\n\nL is the context."
    assert "x W_in" not in mixers["she"]["equation"]
    assert mixers["she"]["about"] == "The super high-performance Extractor: a matrix for each lag."


def test_the_settings_of_a_run() -> None:
    (training,) = [each for each in registry.run() if each["name"] == "training"]
    (rate,) = [each for each in training["settings"] if each["name"] == "lr"]
    assert rate["types"] == ["float"]
    assert rate["bounds"] == {"gt": 0}
    assert rate["default"] == RunConfig.model_fields["training"].default.lr
    (mixer,) = [each for part in registry.run() for each in part.get("settings", []) if each["name"] == "mixer"]
    assert mixer["types"] == ["mixer", "list of mixers"]
    assert mixer["converted"]
    assert "default" not in mixer


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ("Short. And more.", "Short"),
        ("A name that is short: and then an explanation that is not short at all.", "A name that is short"),
        ("A name that is short, and then an explanation that is not short at all.", "A name that is short"),
        ("word " * 20, "word word word word word word word…"),
    ],
)
def test_a_summary_fits(about: str, expected: str) -> None:
    assert described.summary(about) == expected
    assert len(expected) <= described.WIDEST


@pytest.mark.slow
def test_a_mixer_registered_here_is_described_too(tmp_path: object) -> None:
    with added(ADDED, tmp_path):  # type: ignore[arg-type]
        assert registry.mixers()[KIND]["summary"] == "The average of all tokens so far"
        assert KIND not in json.loads(described.text())["mixers"]
    assert KIND not in registry.mixers()
