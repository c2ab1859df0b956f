"""Patches: models are trained and scored against chance, the page, wrong input."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.runs.metrics import read
from seqloom.studies.candidate import parse_candidate
from seqloom.studies.runner import run
from seqloom_studies.patches import page
from seqloom_studies.patches.study import Classified, PatchesStudy
from tests.studies.page_rows import classified

SOURCE = "images:shapes:8:40"
SMALL = ["model.dim=16", "model.depth=1", "training.batch=4", "training.device=cpu"]


def rows(*changes: dict[str, Any]) -> list[page.Classified]:
    return [page.Classified.model_validate(classified(**change)) for change in changes]


@pytest.mark.slow
def test_models_are_trained_and_scored(tmp_path: Path) -> None:
    mixers = [parse_candidate("fnet"), parse_candidate("linformer:k=2")]
    found = run(PatchesStudy(mixers, [SOURCE], batches=3, changes=SMALL).study, tmp_path).of(Classified)
    assert [row.mixer for row in found] == ["fnet", "linformer-k=2"]
    assert [(row.patches, row.pictures) for row in found] == [(4, 2)] * 2
    last = read(next(tmp_path.rglob("fnet/seed-0")) / "metrics.jsonl")[-1]
    assert (found[0].accuracy, found[0].chance) == (last["accuracy"], last["chance"])
    assert found[0].multiplications < found[1].multiplications
    assert "linformer-k=2" in page.write(tmp_path).read_text(encoding="utf-8")


def test_models_are_ranked_by_their_mean() -> None:
    found = rows(
        {"accuracy": 0.5}, {"accuracy": 0.7, "seed": 1}, {"mixer": "fnet", "accuracy": 0.7},
        {"mixer": "fnet", "accuracy": 0.7, "seed": 1},
    )  # fmt: skip
    assert [row.mixer for row in page.rank_models(found)] == ["fnet", "fnet", "he", "he"]
    answer, evidence = page.answer(page.rank_models(found))
    assert answer == "Right labels of images:shapes:8: fnet 70.0%, he 60.0%; by chance 40.0%."
    assert evidence == "Means of 2 seeds."
    line = page.text(found).splitlines()[-1]
    assert [word for word in line.split() if "%" in word] == ["60.0%", "50.0%", "70.0%", "40.0%"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixers": []}, "needs mixers that differ"),
        ({"sources": ["stories"]}, "patches are of pictures"),
        ({"sources": [SOURCE, SOURCE]}, "needs pictures that differ"),
        ({"mixers": [parse_candidate("linformer:k=9")]}, "9 landmarks of 4 tokens"),
        ({"seeds": 0}, "seeds"),
        ({"changes": ["model.patch=3"]}, "choose one of 1, 2, 4, 8"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, Any], words: str) -> None:
    no_results: Any = None
    with pytest.raises(ValueError, match=words) as error:
        list(PatchesStudy(**{"mixers": [parse_candidate("fnet")], "sources": [SOURCE], **settings}).stages(no_results))
    assert "\n" not in str(error.value)
