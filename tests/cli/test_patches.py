"""`seqloom train` and `evaluate` of models of patches: learned, continued, scored, refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.core.model_config import ModelConfig
from seqloom.face import load
from seqloom.runs.metrics import read
from seqloom.training.objectives.patches import PatchesConfig
from seqloom.training.settings import resolve
from tests.cli.conftest import Seqloom

SMALL = [
    *("--set", "training.batch=8", "--set", "model.dim=16", "--set", "model.ffn=16", "--set", "model.depth=1"),
    *("--set", "training.evaluate_every=0", "--set", "training.device=cpu", "--set", "model.mixer.kind=mlp_mixer"),
]


@pytest.mark.slow
def test_shapes_are_learned_and_scored(seqloom: Seqloom, tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    words = ["--data", "images:shapes:8:600", "--set", "training.batches=150", "--set", "training.lr=0.01"]
    first = seqloom("train", "pictures/patches", *words, "--set", "data.held_out=0.2", *SMALL, "--out", out)
    assert first.code == 0
    assert "of 120 right" in first.out + first.err
    answer = seqloom("evaluate", out, "--data", "images:shapes:8:100:5", "--json")
    assert answer.code == 0
    row = json.loads(answer.out)
    assert row["pictures"] == 100
    assert row["chance"] < 0.5
    assert row["accuracy"] > row["chance"] + 0.2
    assert "accuracy of always saying the commonest label" in seqloom("evaluate", out, "--data", "images:shapes:8").out
    for options, says in (
        (["--data", "images:digits:8:40"], "was never seen in training; there is circle"),
        (["--data", "images:shapes:12:40"], "pictures of 12 × 12 gray pixels, and the model was trained on 8 × 8"),
        (["--data", "images:shapes:8:40", "--stride", "3"], "--stride is for text"),
        (["--data", "stories"], "patches are of pictures"),
    ):
        wrong = seqloom("evaluate", out, *options)
        assert wrong.code == 2
        assert says in wrong.err
        assert wrong.err.count("\n") == 1


@pytest.mark.slow
def test_a_price_is_of_the_pictures(seqloom: Seqloom, tmp_path: Path) -> None:
    words = ["--data", "images:colors:16:100", "--set", "training.batches=1", *SMALL]
    plan = seqloom("train", "pictures/patches", *words, "--plan")
    seqloom("train", "pictures/patches", *words, "--out", str(tmp_path / "run"))
    config = json.loads((tmp_path / "run/config.json").read_text())["model"]
    assert config["shape"] == [16, 16, 3]
    parameters = sum(parameter.numel() for parameter in load(tmp_path / "run").parameters())
    assert f"{parameters:,}" in plan.out
    for command in (["export", "pt2"], ["export", "onnx"]):
        refused = seqloom(*command, str(tmp_path / "run"), str(tmp_path / f"x.{command[1]}"))
        assert refused.code == 2
        assert "patch_classifier reads numbers, and no tokens: its graph is not exported" in refused.err


@pytest.mark.slow
def test_a_run_in_two_parts_is_one_run(seqloom: Seqloom, tmp_path: Path) -> None:
    def train(out: Path, batches: int) -> None:
        words = ["--data", "images:digits:8:40", "--set", "training.schedule.kind=constant", "--out", str(out)]
        assert seqloom("train", "pictures/patches", *words, *SMALL, "--set", f"training.batches={batches}").code == 0

    train(tmp_path / "once", 6)
    train(tmp_path / "twice", 3)
    train(tmp_path / "twice", 6)
    once, twice = (
        [row["loss"] for row in read(tmp_path / name / "metrics.jsonl") if "loss" in row] for name in ("once", "twice")
    )
    assert once == twice
    assert len(once) == 6


def test_each_picture_is_read_once_an_epoch() -> None:
    run = resolve("pictures/patches", ["model.patch=8"], "images:digits:8:40")
    assert run.model.vocab == 1, "a price before the pictures are read has no vocabulary"
    objective = PatchesConfig().build(run.model, run.data, 19, None)
    for epoch in (0, 1):
        steps = [objective.batch(5, 2 * epoch + step, torch.nn.Identity()) for step in (0, 1)]
        rows = torch.cat([step["values"] for step in steps]).reshape(38, -1).numpy()
        assert len(np.unique(rows, axis=0)) == 38
    assert objective.count_tokens(steps[0]) == 19
    model: ModelConfig = run.model
    noise = PatchesConfig().build_on_random(model, 3).batch(0, 0, torch.nn.Identity())
    assert noise["values"].shape == (3, model.context, 64)


def test_settings_and_files_that_do_not_fit(seqloom: Seqloom, tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, mode, size in (("ok", "L", (8, 8)), ("odd", "L", (8, 6)), ("clear", "RGBA", (8, 8))):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("L", (8, 8), number).save(tmp_path / name / f"{number}.png")
        Image.new(mode, size).save(tmp_path / name / "3.png")
    cut = tmp_path / "ok" / "2.png"
    cut.write_bytes(cut.read_bytes()[:50])
    for words, says in (
        (["--data", "images:digits:8:40", "--set", "model.patch=3"], "choose one of 1, 2, 4, 8"),
        (["--data", "stories"], "patches are of pictures"),
        (["--data", "images:digits:8:40", "--set", "model.mixer={kind: linformer, k: 9}"], "9 landmarks of 4 tokens"),
        (["--data", "images:digits", "--set", "data.tokenizer=bytes"], "patches have no use for data.tokenizer"),
        (["--data", "images:digits", "--set", "data.vocab=300"], "patches have no use for data.vocab"),
        (["--data", "images:digits:8:40", "--set", "model.context=64"], "model.context follows from the pictures"),
        (["--data", "images:digits:8:40", "--set", "model.labels=[x, y]"], "model.labels follows from the pictures"),
        (["--plan", "--data", "images:nothing"], "images"),
        (["--data", "images:digits", "--set", "training.objective.kind=labels"], "training.objective.kind=patches"),
        (["--data", "images:digits", "--set", "model.kind=classifier"], "unknown setting 'model.patch'"),
        (["--data", f"images:{tmp_path}/ok"], "2.png is no readable PNG file"),
        (["--data", f"images:{tmp_path}/odd"], "3.png: 8 × 6 pixels of 1 numbers, where the first file has 8 × 8"),
        (["--data", f"images:{tmp_path}/clear"], "3.png: a picture of mode RGBA"),
        (["--data", f"images:{tmp_path}/none"], "there is no such folder"),
    ):
        answer = seqloom("train", "pictures/patches", *words, "--out", str(tmp_path / "run"))
        assert answer.code == 2, words
        assert says in answer.err
        assert answer.err.count("\n") == 1
        assert not (tmp_path / "run").exists()
