"""What the tests of checkpoints save, and the process that saves in a loop until it is killed."""

import os
from pathlib import Path

import torch

from seqloom.runs import checkpoint


def groups(step: int, width: int = 8) -> dict[str, dict[str, torch.Tensor]]:
    return {
        "model": {"w": torch.full((width, width), float(step)), "b": torch.arange(5) + step},
        "optimizer": {"w.exp_avg": torch.full((width,), step / 2, dtype=torch.float64)},
        "random": {"cpu": torch.full((16,), step % 251, dtype=torch.uint8)},
    }


def is_whole(actual: checkpoint.Checkpoint) -> bool:
    expected = groups(actual.step, actual.tensors["model"]["w"].shape[0])
    return actual.meta["step"] == actual.step and all(
        torch.equal(actual.tensors[group][name], tensor)
        for group in expected
        for name, tensor in expected[group].items()
    )


def save(folder: Path, step: int, width: int = 8) -> Path:
    return checkpoint.save(folder, step, groups(step, width), {"step": step})


def save_until_killed(folder: Path, start: int, report: int) -> None:
    """Saves step after step, each third one twice, keeps two; writes each step to `report` once its save returned."""
    torch.set_num_threads(1)
    for step in range(start, start + 100_000):
        for _ in range(2 if step % 3 == 0 else 1):
            save(folder, step, width=64)
            os.write(report, step.to_bytes(4, "little"))
        checkpoint.prune(folder, keep_last=2)
