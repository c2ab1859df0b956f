"""A store of a run's training text, a SPALM with another mixer, its score and its text; errors are one line."""

import json
import shutil
from pathlib import Path

import pytest

from seqloom.cli import command
from tests.cli.conftest import Seqloom
from tests.cli.test_bad_input import refused

pytestmark = pytest.mark.slow

SMALL = ("--set", "training.batches=3", "--set", "data.source=stories:9:0")
FROZEN = ("--set", "model.mixer.kind=gru", "--set", "model.position.kind=none")
TIED = ("--set", "model.kind=spalm", "--set", "model.tie=true", "--set", "model.position.kind=none")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frozen run, its store, and a SPALM around a linear recurrence."""
    folder = tmp_path_factory.mktemp("spalm")
    frozen, store, run = (str(folder / name) for name in ("frozen", "store", "run"))
    assert command(["train", "tiny", *SMALL, *FROZEN, "--out", frozen]) == 0
    assert command(["knn", "build", frozen, "--out", store]) == 0
    mixer = ("--set", "model.mixer.kind=gla", "--set", f"model.store={store}")
    assert command(["train", "tiny", *SMALL, *TIED, *mixer, "--out", run]) == 0
    return folder


def test_evaluate_and_generate(seqloom: Seqloom, home: Path) -> None:
    run = home / "run"
    by_windows = json.loads(seqloom("evaluate", run, "--data", "stories:2:5", "--json").out)
    read = json.loads(seqloom("evaluate", run, "--data", "stories:2:5", "--memory", "carry", "--json").out)
    assert by_windows["tokens"] == read["tokens"]
    assert by_windows["held_out"] != read["held_out"]
    asked = ("generate", run, "Once upon a time", "--max-tokens", 12, "--temperature", 0)
    slide, stream = seqloom(*asked), seqloom(*asked, "--mode", "stream")
    assert slide.code == stream.code == 0, stream.err
    assert slide.out.startswith("Once upon a time")
    assert seqloom("generate", run, "Once upon a time", "--max-tokens", 5, "--beams", 2).code == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert "held_out" in rows[-1]
    again = seqloom("knn", "build", home / "frozen", "--out", home / "store")
    assert again.code == 0
    assert "stories:9:0" in again.out


def test_a_store_of_a_run_whose_text_is_not_known(seqloom: Seqloom, home: Path, tmp_path: Path) -> None:
    refused(seqloom("knn", "build", home / "frozen", "--out", tmp_path / "new", "--column", "text"), "add --data")
    import seqloom as package

    model = package.load(home / "frozen")
    package.save(model, tmp_path / "alone", tokenizer=model.tokenizer)
    refused(
        seqloom("knn", "build", tmp_path / "alone", "--out", tmp_path / "new"),
        "is not known, as its checkpoint",
        "--data",
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("nowhere", "is no store: it has no store.json"),
        ("frozen", "is no store: it has no store.json"),
        ("half", "is half built: run the same `seqloom knn build` again"),
        ("cut", "keys.bin"),
        ("other", "is of another text than the"),
        ("gone", "does not exist"),
    ],
)
def test_impossible_stores(seqloom: Seqloom, home: Path, wrong: str, words: str, tmp_path: Path) -> None:
    store = tmp_path / wrong
    if wrong == "frozen":
        store = home / "frozen"
    elif wrong == "other":
        assert seqloom("knn", "build", home / "frozen", "--data", "stories:9:0", "--out", store).code == 0
    elif wrong == "gone":
        shutil.copytree(home / "frozen", tmp_path / "frozen")
        assert seqloom("knn", "build", tmp_path / "frozen", "--out", store).code == 0
        shutil.rmtree(tmp_path / "frozen")
    elif wrong != "nowhere":
        shutil.copytree(home / "store", store)
        keys, manifest = store / "entries/keys.bin", store / "entries/manifest.json"
        if wrong == "half":
            manifest.unlink()
        else:
            keys.write_bytes(keys.read_bytes()[:-4])
    arguments = ("train", "tiny", *SMALL, *TIED, "--set", "model.mixer.kind=he", "--set", f"model.store={store}")
    refused(seqloom(*arguments, "--out", tmp_path / "new"), words)
    assert not (tmp_path / "new").exists()


def test_a_run_whose_store_is_not_there(seqloom: Seqloom, home: Path) -> None:
    (home / "store").rename(home / "moved")
    try:
        refused(seqloom("evaluate", home / "run", "--data", "stories:2:5"), "is no store: it has no store.json")
        refused(seqloom("generate", home / "run", "Once"), "is no store: it has no store.json")
    finally:
        (home / "moved").rename(home / "store")
