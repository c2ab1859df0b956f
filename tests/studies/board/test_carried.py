"""A model that is packed to come with seqloom: a run as any other, of two bytes a weight, with a card."""

import shutil
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.runs.layout import Run
from seqloom.training.settings import resolve
from seqloom.training.train import train
from seqloom_studies.board.carried import pack


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(resolve("tiny", ["training.batches=3"]), folder, say=lambda line: None)
    return folder


@pytest.fixture
def packed(run: Path, tmp_path: Path) -> Path:
    return pack(run, tmp_path, "three tales", "1234abcd")


def test_its_weights_are_those_of_the_run_rounded(run: Path, packed: Path) -> None:
    weights, rounded = (seqloom.load(folder).state_dict() for folder in (run, packed))
    assert rounded.keys() == weights.keys()
    for name, tensor in rounded.items():
        assert tensor.dtype == weights[name].dtype
        assert torch.equal(tensor, weights[name].bfloat16().to(tensor.dtype))
    files = [next(folder.glob("checkpoints/*3/model.safetensors")).stat().st_size for folder in (run, packed)]
    assert files[1] < 0.7 * files[0]


def test_it_is_a_run_of_the_same_settings_without_rows(run: Path, packed: Path) -> None:
    assert Run(packed).settings == {**Run(run).settings, "stored": "bfloat16"}
    assert Run(packed).has_tokenizer() == Run(run).has_tokenizer()
    assert {path.name for path in packed.iterdir()} == {"README.md", "checkpoints", "config.json", "tokenizer.json"}
    card = (packed / "README.md").read_text()
    assert "in training, 3 batches of" in card
    assert "| text | three tales; digest" in card
    assert "commit 1234abcd" in card
    assert "bits a byte, before" in card


def test_a_changed_byte_is_noticed(packed: Path) -> None:
    (path,) = packed.glob("checkpoints/*/model.safetensors")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        seqloom.load(packed)


def test_a_run_that_is_not_finished_is_refused(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text("".join(lines[:2]))
    with pytest.raises(ValueError, match="not trained to its end"):
        pack(copy, tmp_path / "out", "three tales", "1234abcd")
    assert not (tmp_path / "out").exists()
