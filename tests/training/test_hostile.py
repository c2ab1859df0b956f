"""Training does not resume from rows that its checkpoint does not count, nor from a malicious folder."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seqloom.data.tokenizer import Tokenizer
from seqloom.runs.about import ROWS
from seqloom.runs.rows import START, encode
from tests.runs.hostile import checkpoint, meta, replaced, seal
from tests.training.running import rows, saved, tiny

pytestmark = pytest.mark.slow

SHORT = ("training.batches=4",)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after 4 of 9 batches: 5 rows."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    tiny(folder, *SHORT)
    return folder


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], object]:
    def wreck(run: Path) -> None:
        path = run / "metrics.jsonl"
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return wreck


def _optimizer(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def wreck(run: Path) -> None:
        path = checkpoint(run) / "optimizer.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)
        meta(lambda message: message["groups"]["optimizer"].update(tensors=list(tensors)))(run)

    return wreck


def _link(path: Path) -> None:
    (path.parent.parent / "victim").write_text("of somebody else")
    path.symlink_to(path.parent.parent / "victim")


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a damaged row": (
        _lines(lambda lines: [lines[0], lines[1].replace(b"loss", b"cast"), *lines[2:]]),
        "of the 5 rows that the run's checkpoint counts, 1 damaged (line 2)",
    ),
    "a deleted row": (_lines(lambda lines: lines[:1] + lines[2:]), "1 missing"),
    "a deleted last row": (_lines(lambda lines: lines[:-1]), "1 missing"),
    "a torn row that the checkpoint counts": (
        _lines(lambda lines: [*lines[:-1], lines[-1][:20]]),
        "1 missing",
    ),
    "rows of another run": (
        _lines(lambda lines: [encode({"step": step, "loss": 1.0}) for step in range(5)]),
        "some were deleted, added or exchanged",
    ),
    "no rows": (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl is missing: restore it"),
    "rows that are a FIFO": (replaced("metrics.jsonl", os.mkfifo), "metrics.jsonl is a FIFO"),
    "rows behind a link": (replaced("metrics.jsonl", _link), "metrics.jsonl is a link"),
    "a lock behind a link": (replaced("lock", _link), "cannot write in"),
    "a lock that is a FIFO": (replaced("lock", os.mkfifo), "lock is not a regular file"),
    "another run's tokenizer": (
        lambda run: Tokenizer.train(["another text, another text"], 300).save(run / "tokenizer.json"),
        "tokenizer.json is damaged or of another run",
    ),
    "no count of rows": (meta(lambda said: said["meta"].pop(ROWS)), "it has no number and digest of rows"),
    "a count of rows that is none": (
        meta(lambda said: said["meta"].update({ROWS: {"rows": -1, "sha256": ""}})),
        "none",
    ),
    "another count of rows": (
        meta(lambda said: said["meta"].update({ROWS: {**START.row(), "rows": 9}})),
        "of the 9 rows that the run's checkpoint counts, 4 missing",
    ),
    "a billion threads": (
        meta(lambda said: said["meta"]["surroundings"].update(threads=10**9)),
        "surroundings.threads",
    ),
    "no surroundings": (meta(lambda said: said["meta"].pop("surroundings")), "surroundings"),
    "backends that are a word": (meta(lambda said: said["meta"]["surroundings"].update(backends="x")), "backends"),
    "an unknown backend": (
        meta(lambda said: said["meta"]["surroundings"]["backends"].update(lag_sum=["nonsense"])),
        "nonsense",
    ),
    "a best that is none": (meta(lambda said: said["meta"].update(best=[3])), "best"),
    "no optimizer": (meta(lambda said: said["groups"].pop("optimizer")), "a model without its optimizer"),
    "an optimizer's tensor of another size": (
        _optimizer(lambda held: held.update({"head.bias.exp_avg": torch.zeros(3)})),
        "the optimizer of this model has no 'head.bias.exp_avg' of shape (3,)",
    ),
    "an optimizer's tensor missing": (
        _optimizer(lambda held: held.pop("head.bias.exp_avg")),
        "the optimizer's memory of head.bias is only exp_avg_sq, step",
    ),
    "an optimizer of more parameters": (
        _optimizer(lambda held: held.update({"layers.9.step": torch.zeros(())})),
        "has no 'layers.9.step'",
    ),
    "an optimizer's tensor of an odd name": (_optimizer(lambda held: held.update(x=torch.zeros(()))), "has no 'x'"),
    "checkpoints behind a link": (
        lambda run: (
            shutil.move(run / "checkpoints", run.parent / "elsewhere"),
            (run / "checkpoints").symlink_to(run.parent / "elsewhere"),
        ),
        "checkpoints is a link",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_does_not_go_on(begun: Path, out: Path, name: str) -> None:
    wreck, why = CASES[name]
    shutil.copytree(begun, out)
    wreck(out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(ValueError, match=re.escape(why)) as raised:
        tiny(out, say=lambda line: None)
    assert "\n" not in str(raised.value)
    assert {path: path.read_bytes() for path in before} == before
    if (out.parent / "victim").exists():
        assert (out.parent / "victim").read_text() == "of somebody else"


def test_a_row_that_was_flipped_in_a_finished_run(begun: Path, out: Path) -> None:
    shutil.copytree(begun, out)
    path = out / "metrics.jsonl"
    flipped = bytearray(path.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match="rows that the run's checkpoint counts"):
        tiny(out, *SHORT)


def test_damage_after_the_checkpoint_loses_nothing(begun: Path, out: Path) -> None:
    shutil.copytree(begun, out)
    with (out / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 5, "loss"\n{"step": 6}\n')
    assert tiny(out).step == 9
    assert [row["step"] for row in rows(out) if "loss" in row] == list(range(1, 10))
    assert saved(out)[-1] == 9


def test_the_seal_of_the_tests_is_that_of_a_checkpoint(begun: Path, out: Path) -> None:
    shutil.copytree(begun, out)
    seal(out)
    meta(lambda message: None)(out)
    assert tiny(out).step == 9
