"""Contenders: mixers by name, and models sized to equal another."""

import re
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.analysis.match import match, quantity
from seqloom.studies.candidate import preset_of
from seqloom.studies.candidates import Candidate, parse_candidate, resize_candidate
from seqloom.studies.compare import Match
from seqloom.training.preset import preset_values
from seqloom.training.settings import resolve
from tests.at_once import first
from tests.studies.comparing import SMALL, compare, unclocked


def test_a_contender_is_a_kind_with_settings() -> None:
    assert parse_candidate("she") == Candidate("she", ("model.mixer.kind=she",), kind="she")
    result = parse_candidate("extractor:groups=4,in_proj=true")
    assert result.name == "extractor-groups=4-in_proj=true"
    assert result.changes == ("model.mixer.kind=extractor", "model.mixer.groups=4", "model.mixer.in_proj=true")


def test_a_layer_is_a_contender() -> None:
    layer = parse_candidate("path/my.py:Layer:heads=2")
    assert layer.name == "my.Layer-heads=2"
    assert layer.changes == ("model.mixer.kind=path/my.py:Layer", "model.mixer.heads=2")
    assert preset_of(["my.py:Layer:heads=2", "mamba/small"]) == "mamba/small"


@pytest.mark.parametrize("text", ["", ":heads=2", "attention:heads=2,rope"])
def test_what_is_no_contender(text: str) -> None:
    with pytest.raises(ValueError, match="attention:heads=32"):
        parse_candidate(text)


def test_a_kind_replaces_all_layers_of_a_recipe_whose_layers_differ() -> None:
    values = preset_values("paper/reformer_performer", parse_candidate("attention:heads=2").changes)
    assert values["model"]["mixer"] == {"kind": "attention", "heads": 2}


@pytest.mark.slow
@pytest.mark.parametrize("equal", first(1, ["params", "mul"]))
@pytest.mark.usefixtures("stopped_clocks")
def test_each_contender_has_a_model_of_equal_size(tmp_path: Path, equal: Any) -> None:
    peer = parse_candidate("attention:heads=2")
    comparison = compare([peer, parse_candidate("she")], "tiny", SMALL, tmp_path, match=Match(equal, peer))
    made = next(each for each in comparison.contenders if each.matched_to)
    assert len(comparison.contenders) == 3, "nothing is matched to the peer itself"
    assert made.name == f"attention-heads=2.{equal}-of-she"
    assert made.matched_to == "she"
    assert re.match(r"attention: (ffn 64|dim 32|depth 1) → ", made.matched)
    model, she = (seqloom.load(tmp_path / name / "seed-0").config for name in (made.name, "she"))
    assert quantity(model, equal) == pytest.approx(quantity(she, equal), rel=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_sizes_matched_by_time_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.studies import candidates

    asked = []

    def measured(own: Any, to: Any, training: Any, equal: Any, by: Any) -> Any:
        asked.append(by)
        if by != "ffn":
            raise ValueError("too slow")
        return match(own, to.with_ffn_width(64 + len(asked)), equal="params", by=by)

    monkeypatch.setattr(candidates, "_match", measured)
    peer = parse_candidate("attention:heads=2")
    first, again = (
        compare([parse_candidate("me")], "tiny", SMALL, tmp_path, match=Match("time", peer)) for _ in range(2)
    )
    assert asked == ["ffn", "dim", "depth"], "the second call measured again"
    assert unclocked(first) == unclocked(again)


@pytest.mark.slow
def test_the_size_that_moves_least_moves() -> None:
    she, attention = (resolve("paper/table1", parse_candidate(text).changes) for text in ("she", "attention:heads=1"))
    for by, moved in ((None, "dim"), ("ffn", "ffn")):
        made = resize_candidate(
            *(parse_candidate("attention:heads=1"), attention.model, parse_candidate("she"), she.model, she.training),
            equal="params",
            by=by,
        )
        assert made.changes[-1].startswith(f"model.{moved}="), made.matched
        config = resolve("paper/table1", made.changes).model
        assert quantity(config, "params") == pytest.approx(quantity(she.model, "params"), rel=0.01)


@pytest.mark.slow
def test_what_cannot_be_matched_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be sized for me: no ffn brings"):
        compare(
            [parse_candidate("me")],
            "tiny",
            [*SMALL, "model.dim=4", "model.ffn=1", "data.vocab=260"],
            tmp_path,
            match=Match("params", parse_candidate("attention:heads=1"), "ffn"),
        )
