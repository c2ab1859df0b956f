"""An edited mixer in a study: an error that names it, and --again, which repeats its cells alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from seqloom.mixers.linear.linear import LinearConfig
from seqloom.runs.layout import identity
from seqloom.studies.again import choose_cells
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.command import require_unplanned
from seqloom.studies.compare import Compare
from seqloom.studies.race import Race
from seqloom.studies.recall import Recall
from seqloom.studies.results import Results
from seqloom.studies.runner import preview, run
from seqloom.training.settings import resolve
from tests.studies.comparing import SMALL

MIXERS = [parse_candidate(text) for text in ("attention:heads=2", "linear")]


def compared(out: Path, again: Sequence[str] | None = None) -> Results:
    return run(Compare(MIXERS, "tiny", SMALL).study, out, again=again)


def written(out: Path) -> dict[str, int]:
    return {path.parent.relative_to(out).as_posix(): path.stat().st_mtime_ns for path in out.rglob("rows.json")}


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_an_edited_mixer_is_repeated_where_that_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compared(tmp_path).failed
    first = written(tmp_path)
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    with pytest.raises(ValueError, match=r"^linear's code changed since: `--again linear`, or another --out$"):
        compared(tmp_path, [])
    with pytest.raises(ValueError, match=r"^linear's code changed since: choose another --out$"):
        compared(tmp_path)
    with pytest.raises(ValueError, match=r"--again: 'linaer' is not compared here; did you mean 'linear'\?"):
        compared(tmp_path, ["linaer"])
    assert written(tmp_path) == first, "nothing is lost"
    assert not compared(tmp_path, ["linear"]).failed
    second = written(tmp_path)
    assert {name for name in second if second[name] != first[name]} == {"linear/seed-0", "linear/portrait", "race"}
    assert not compared(tmp_path, []).failed
    assert written(tmp_path) == second
    assert not compared(tmp_path, ["attention:heads=2"]).failed
    third = written(tmp_path)
    assert {name for name in third if third[name] != second[name]} == {
        *("attention-heads=2/seed-0", "attention-heads=2/portrait"),
    }


@pytest.mark.slow
def test_a_probe_of_an_edited_mixer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints are gone when it is done, and its cells allow drift."""
    grid = Recall([parse_candidate("linear")], ["mqar"], [1], dims=[8], depth=1, batches=2, batch=2)
    assert not run(grid.study, tmp_path).failed
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    with pytest.raises(ValueError, match=r"linear's code changed since"):
        run(grid.study, tmp_path, again=[])
    assert not run(grid.study, tmp_path, again=["linear"]).failed


def test_the_cells_of_a_kind_are_those_of_all_its_contenders(tmp_path: Path) -> None:
    mixers = [parse_candidate(text) for text in ("linear:heads=2", "she")]
    nested = parse_candidate("spade")
    cells = preview(Compare([*mixers, nested], "tiny", SMALL, lengths=[16]).study, tmp_path)
    assert {cell.name for cell in choose_cells(cells, ["linear"])} == {
        *("linear-heads=2/seed-0", "linear-heads=2/portrait", "linear-heads=2/decoding-16"),
    }
    assert {cell.about for cell in choose_cells(cells, ["attention"])} == {"spade"}, "which has attention inside"
    assert choose_cells(cells, []) == []


def test_the_key_of_a_cell_is_that_of_before_without_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve("tiny", ["model.mixer.kind=linear"])
    race = Race("race", {"linear": config}, "a machine", rounds=7)
    before = race.key
    assert race.code == {}
    assert before == identity(race.settings)
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    assert race.code == {"linear": 2}
    assert race.key != before


def test_a_plan_repeats_nothing() -> None:
    require_unplanned([])
    with pytest.raises(ValueError, match=r"leave --again or --plan out"):
        require_unplanned(["linear"])
