"""Texts of a model of pictures as pictures: what it is given, what is sent of them, and what is missing in them."""

import io
import json
import shlex
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.cli import command
from seqloom.data.pictures import FRAME, Pictures, decode_picture, encode_picture, read_pictures
from seqloom.play.drawing import MISSING, PictureColumn, column_of, draws_pictures, paint_text
from seqloom.play.writing import Writing
from seqloom.training.settings import resolve
from seqloom.training.train import train
from tests.play.conftest import Served, save_pictures

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
DIGITS = read_pictures("images:digits:8:40")


def read_address(address: str) -> np.ndarray:
    """The red, green and blue (H, W, 3) of the address of a PNG."""
    assert address.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"))


def write(served: Served, **asked: Any) -> list[dict[str, Any]]:
    with served.client() as client:
        return [json.loads(line) for line in client.post("/api/write", json=asked).text.splitlines()]


@pytest.mark.parametrize("source", ["images:digits:8:40", "images:colors:8:40", "images:colors:8:40:3:blocks"])
def test_the_picture_of_a_text_so_far(source: str) -> None:
    pictures = read_pictures(source)
    picture = pictures.example(5).picture
    text = encode_picture(picture, pictures.order)
    colored = np.broadcast_to(picture, (8, 8, 3))
    assert (read_address(paint_text(pictures, text)) == colored).all()
    half = read_address(paint_text(pictures, text[: 1 + pictures.numbers // 2]))
    assert (half[:4] == colored[:4]).all()
    assert (half[4:] == MISSING).all()


def test_a_picture_of_a_folder_and_one_that_no_model_has_read(tmp_path: Path) -> None:
    drawn = list(DIGITS)
    assert not any((DIGITS.example(3).picture == each.picture).all() for each in drawn)
    for number, each in enumerate(drawn[:3]):
        Image.fromarray(each.picture[:, :, 0]).save(tmp_path / f"{number}.png")
    folder = read_pictures(f"images:{tmp_path}")
    assert (folder.example(4).picture == drawn[1].picture).all()


@pytest.mark.parametrize("pictures", [DIGITS, read_pictures("images:colors:12:40:0:blocks")], ids=["gray", "blocks"])
def test_what_is_given(pictures: Pictures) -> None:
    for half in (False, True):
        asked = Writing(models=["a"], prompt="Once", max_tokens=3, half=half, seed=7, stop=["x"])
        given = PictureColumn("a", Path("a"), asked, pictures).asked
        text = encode_picture(pictures.example(7).picture, pictures.order)
        assert given.prompt == (text[: 1 + pictures.numbers // 2] if half else FRAME)
        assert given.max_tokens == pictures.numbers // 2 if half else pictures.numbers
        assert given.stop == []


@pytest.mark.slow
def test_a_picture_is_sent_row_by_row(served: Served, drawing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served.client() as client:
        found = client.get("/api/models").json()
    assert found["drawing"] == [drawing]
    assert "runs/gru" in found["models"]
    events = write(served, models=[drawing], prompt="not read", seed=2, samples=2, half=True)
    head = events[0]
    original = DIGITS.example(2).picture
    assert (read_address(head["example"]) == original).all()
    assert (read_address(head["picture"])[4:] == MISSING).all()
    for number in (0, 1):
        mine = [event for event in events if event.get("text") == number]
        text = "".join(event.get("piece", "") for event in mine)
        last = read_address([event for event in mine if "png" in event][-1]["png"])
        assert (last[:4] == original[:4]).all()
        expected = decode_picture(encode_picture(original)[:33] + text, 8, 8, 1)
        there = np.arange(64).reshape(8, 8) < 32 + len(text)
        assert (last == np.where(there[..., None], expected, MISSING)).all()
        assert len([event for event in mine if "png" in event]) >= len(text) // 8
    capsys.readouterr()
    assert command(shlex.split(head["command"])[1:]) == 0
    text = "".join(event.get("piece", "") for event in events if event.get("text") == 0)
    assert capsys.readouterr().out == encode_picture(original)[:33] + text + "\n"


@pytest.mark.slow
def test_a_text_beside_a_picture(served: Served, drawing: str) -> None:
    events = write(served, models=["runs/gru", drawing], prompt="Once", max_tokens=4)
    heads = {event["model"]: event for event in events if "model" in event}
    assert "picture" not in heads["runs/gru"]
    assert heads[drawing]["example"] is None
    assert (read_address(heads[drawing]["picture"]) == MISSING).all()


@pytest.mark.slow
def test_pictures_that_are_gone(served: Served, tmp_path: Path) -> None:
    faces, folder = tmp_path / "faces", tmp_path / "run"
    faces.mkdir()
    for number, each in enumerate(list(DIGITS)[:6]):
        Image.fromarray(each.picture[:, :, 0]).save(faces / f"{number}.png")
    save_pictures(folder, f"images:{faces}")
    assert draws_pictures(folder)
    shutil.rmtree(faces)
    served.engine.library._folders["gone"] = folder
    try:
        with served.client() as client:
            answer = client.post("/api/write", json={"models": ["gone"], "prompt": "a"})
    finally:
        del served.engine.library._folders["gone"]
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"{faces}: there is no such folder"


def test_a_run_without_checkpoints_is_of_text(served: Served, tmp_path: Path) -> None:
    asked = Writing(models=["a"], prompt="a")
    for folder in (tmp_path, served.runs / "gru", served.runs / "damaged"):
        assert not draws_pictures(folder)
        assert column_of("a", folder, asked).asked is asked


@pytest.mark.slow
def test_a_classifier_of_pictures_draws_none(tmp_path: Path) -> None:
    changes = ["training.batches=1", "training.batch=4", "model.dim=16", "training.evaluate_every=0"]
    train(resolve("pictures/classifier", changes, "images:digits:16:40"), tmp_path, say=lambda line: None)
    assert not draws_pictures(tmp_path)
