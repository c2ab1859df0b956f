"""Tiny runs: in this process, or in another that is stopped at a chosen moment; and what two runs must share."""

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from seqloom.runs import checkpoint, steps
from seqloom.runs.metrics import Metrics, read
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome, train

SMALL = (
    *("data.source=stories:30:0", "training.device=cpu"),
    *("training.batches=9", "training.save_every=3", "training.evaluate_every=4"),
)
MIXERS = ("she", "attention")
CLOCKS = ("seconds", "compute", "tokens_per_second", "tflops")

_server = multiprocessing.get_context("forkserver")
# the optimizer imports torch._dynamo when it is first used, which takes as long as torch itself
_server.set_forkserver_preload(
    [
        *("__main__", "torch._dynamo", "seqloom.training.train", "seqloom.training.settings"),
        *("seqloom.training.sharding", "seqloom.runs.shards"),  # which import torch's distributed checkpoints
    ]
)


def tiny(folder: Path, *changes: str, **options: Any) -> Outcome:
    """The recipe `tiny`, smaller still; its dropout is 0.1."""
    return train(resolve("tiny", [*SMALL, *changes]), folder, **options)


def mixer(kind: str) -> str:
    return f"model.mixer.kind={kind}"


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run without their clocks."""
    result = read(folder / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in CLOCKS} for row in result]


def saved(folder: Path) -> list[int]:
    return list(steps.whole(folder / "checkpoints"))


def newest(folder: Path) -> checkpoint.Checkpoint:
    result = checkpoint.peek(folder / "checkpoints")
    assert result is not None, "the run has no checkpoint"
    return result


def digests(folder: Path) -> dict[str, str]:
    """sha256 of every tensor of the newest checkpoint: parameters and the optimizer's memory."""
    result = newest(folder)
    assert result.tensors.keys() == {"model", "optimizer"}
    return {
        f"{group} {name}": hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
        for group, named in result.tensors.items()
        for name, tensor in {**named, "step": torch.tensor(result.step)}.items()
    }


def same(folder: Path, expected: Path) -> None:
    """Fails unless both runs ended with the same bits: weights, optimizer, rows, and which step was best."""
    assert digests(folder) == digests(expected)
    assert rows(folder) == rows(expected)
    assert newest(folder).meta["best"] == newest(expected).meta["best"]


def at_row(step: int, number: signal.Signals) -> Callable[[], None]:
    """Arms a process to signal itself as soon as the row of a training step was appended."""
    return _AtRow(step, number)


def at_call(call: int) -> Callable[[], None]:
    """Arms a process to kill itself before its `call`-th change of the file system, counted from 0."""
    return _AtCall(call)


class _AtRow:
    def __init__(self, step: int, number: signal.Signals) -> None:
        self.step, self.number = step, number

    def __call__(self) -> None:
        append = Metrics.append

        def watched(rows: Metrics, row: dict[str, Any]) -> None:
            append(rows, row)
            if row["step"] == self.step and "loss" in row:
                os.kill(os.getpid(), self.number)

        Metrics.append = watched  # type: ignore[method-assign, assignment]


class _AtCall:
    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self) -> None:
        for name in ("open", "write", "ftruncate", "mkdir", "rename", "replace", "unlink", "rmdir"):
            setattr(os, name, self._counted(getattr(os, name)))
        os.fsync = lambda file: None  # a kill leaves what the system holds: only the order of the changes matters

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*values: Any, **named: Any) -> Any:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return call(*values, **named)

        return counted


def apart(folder: Path, *changes: str, arm: Callable[[], None] | None = None) -> int:
    """Runs in a process of its own: 0, 128 + the signal that it saved and stopped on, or -9 when it was killed."""
    process = begin(folder, *changes, arm=arm)
    process.join(60)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("the run did not end in a minute")
    return process.exitcode


def begin(folder: Path, *changes: str, arm: Callable[[], None] | None = None) -> Any:
    """Starts a run in a process of its own."""
    process = _server.Process(target=_run, args=(folder, changes, arm, os.environ["SEQLOOM_CACHE"]))
    process.start()
    return process


def _run(folder: Path, changes: tuple[str, ...], arm: Callable[[], None] | None, cache: str) -> None:
    signal.alarm(60)  # a run that hangs ends by itself
    torch.set_num_threads(1)
    os.environ["SEQLOOM_CACHE"] = cache
    if arm is not None:
        arm()
    outcome = tiny(folder, *changes, say=lambda line: None)
    os._exit(128 + outcome.asked if outcome.asked is not None else 0)


def damage(path: Path, how: str) -> None:
    """Damages one file: a flipped bit, half of it, or none of it."""
    if how == "gone":
        path.unlink()
        return
    raw = bytearray(path.read_bytes())
    if how == "half":
        raw = raw[: len(raw) // 2]
    else:
        raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
