"""The study of distillations: its cells, its rows and page, and wrong input."""

import json
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.studies.runner import run
from seqloom.training.settings import resolve
from seqloom.training.train import train
from seqloom_studies.conversions import page
from seqloom_studies.conversions.study import Conversion, Conversions

DATA = "stories:60"
SIZES = ["model.dim=16", "model.depth=2", "model.context=16", "model.ffn.width=24", "data.vocab=300"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversions") / "teacher"
    train(resolve("llama/small", [*SIZES, "training.batches=40", "training.evaluate_every=0"], source=DATA), folder)
    return folder


def conversions(teacher: Path, **settings: object) -> Conversions:
    values = {"to": ("gated_delta", "he"), "keep": ("50%",), "tokens": (1300,), "batch": 4}
    return Conversions(teacher, DATA, **{**values, **settings})  # type: ignore[arg-type]  # of the fields' types


def test_there_is_a_cell_for_each_choice(teacher: Path) -> None:
    (stage,) = conversions(teacher, keep=("none", "25%"), tokens=(1300, 2000), seeds=2).stages(None)  # type: ignore[arg-type]  # it reads none
    assert len({cell.name for cell in stage}) == len(stage) == 16
    assert len({json.dumps(cell.settings, sort_keys=True) for cell in stage}) == 16


def test_the_rows_and_the_page(teacher: Path, tmp_path: Path) -> None:
    rows = run(conversions(teacher).study, tmp_path, command="seqloom study conversions").of(Conversion)
    assert [row.to for row in rows] == ["gated_delta"] * 4 + ["he"] * 4
    assert [row.model for row in rows[:2]] == ["the teacher", "attention removed"]
    assert {row.layers for row in rows} == {"0"}
    first, second = rows[0], rows[4]
    assert first.loss == second.loss, "one teacher"
    assert first.state < first.state_before
    read = page.read_rows(tmp_path)
    assert [row.loss for row in read] == [row.loss for row in rows]
    written = page.write(tmp_path).read_text()
    assert "Attention distilled into other mixers" in written
    sentences = " ".join(page.answer(read))
    assert "The window costs at least" in sentences
    assert "Recovered by he with attention in 50% of the layers" in sentences
    assert "gated_delta, distilled" in page.text(read)


def test_what_does_not_fit_is_refused(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--to are one or more values that differ"):
        conversions(teacher, to=("he", "he"))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        conversions(tmp_path / "nowhere")
    assert command(["study", "conversions", str(teacher), "--data", DATA, "--tokens", "x", "--out", "new"]) == 2
