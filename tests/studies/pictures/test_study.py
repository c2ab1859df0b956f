"""Pictures: bits per dimension by hand, samples, the page, wrong input."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.data.pictures import FRAME, draw_pictures, encode_picture, read_pictures
from seqloom.face import load
from seqloom.studies.candidate import parse_candidate
from seqloom.studies.runner import run
from seqloom.training.preparation import with_text
from seqloom_studies.pictures import page
from seqloom_studies.pictures.study import Painted, PicturesStudy, measure_bits
from tests.studies.page_rows import painted

SOURCE = "images:shapes:8:40"
SMALL = ["model.dim=16", "model.depth=1", "training.batch=4", "training.device=cpu"]


def rows(*changes: dict[str, Any]) -> list[page.Painted]:
    return [page.Painted.model_validate(painted(**change)) for change in changes]


@pytest.mark.slow
def test_models_are_trained_scored_and_drawn(tmp_path: Path) -> None:
    study = PicturesStudy(
        [parse_candidate("gru"), parse_candidate("sparse:length=8")], SOURCE, batches=3, changes=SMALL
    )
    found = run(study.study, tmp_path).of(Painted)
    assert [row.mixer for row in found] == ["gru", "sparse-length=8"]
    assert all(row.samples is not None and [len(one) for one in row.samples] == [64] * 8 for row in found)
    written = page.write(tmp_path).read_text(encoding="utf-8")
    assert written.count("data:image/png;base64,") == 2
    assert "gru" in page.text(page.read_rows(tmp_path))
    model: Any = load(next(tmp_path.rglob("gru/seed-0")))
    config = study._config(study.mixers[0], 0)
    held_out = with_text(config)[1].held_out
    assert held_out.documents == 2
    nats = 0.0
    texts = {encode_picture(one.picture) for one in draw_pictures("shapes", 8, 0, 0, 40)}
    for first, end in zip(held_out.starts, held_out.ends, strict=True):
        text = model.tokenizer.decode(held_out.ids[first : end - 1].tolist())
        assert text in texts
        ids = torch.tensor(model.tokenizer.encode(text))
        logits = model(ids[None, :-1])[0].log_softmax(-1)
        nats -= float(logits.gather(1, ids[1:, None]).sum().detach())
        assert text.startswith(FRAME)
    expected = nats / math.log(2) / (2 * 64)
    assert measure_bits(model, held_out, read_pictures(SOURCE)) == pytest.approx(expected, rel=1e-5)
    assert found[0].bits == pytest.approx(expected, rel=1e-5)


def test_models_are_ranked_by_their_mean() -> None:
    found = rows(
        {"bits": 2.0}, {"bits": 3.0, "seed": 1}, {"mixer": "me", "bits": 2.4}, {"mixer": "me", "bits": 2.4, "seed": 1}
    )
    assert [row.mixer for row in page.rank_models(found)] == ["me", "me", "he", "he"]
    answer, evidence = page.answer(page.rank_models(found))
    assert answer == "Bits per dimension of images:shapes:8: me 2.4000, he 2.5000."
    assert evidence == "Means of 2 seeds."


def test_samples_side_by_side() -> None:
    gray = rows({"samples": [[0, 17, 34, 51], [255] * 4]})
    ((name, address, width, height),) = page.samples_of(gray)
    assert (name, width, height) == ("he, images:shapes:8", 4, 2)
    assert address.startswith("data:image/png;base64,")
    color = rows({"samples": [list(range(12))], "shape": [2, 2, 3]})
    assert len(page.samples_of(color)) == 1
    assert page.samples_of(rows({"samples": None}, {"samples": [[1]]})) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixers": []}, "needs mixers that differ"),
        ({"source": "stories"}, "pictures are images:KIND"),
        ({"source": "images:digit"}, "did you mean 'digits'"),
        ({"seeds": 0}, "seeds"),
        ({"changes": ["model.size=3"]}, "unknown setting"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        list(PicturesStudy(**{"mixers": [parse_candidate("gru")], "source": SOURCE, **settings}).stages(None))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
