"""How long a training waits for a checkpoint: saved before the next step (sync), and in the background (async).

`python benchmarks/saving.py` saves a model of 32 M parameters with AdamW's averages, in float32 (384 MB): as one
process writes it, and in the parts of a divided model, of which this process has all. What goes on in the background is
off the clock. Freed memory is kept, as in a training, where the first save alone has to map its copy.
"""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from harness import append, compare, gate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from seqloom.runs.layout import Run
from seqloom.training.config import TrainConfig
from seqloom.training.group import Group
from seqloom.training.memory import keep_freed_memory
from seqloom.training.saving import Saver

PARAMETERS = 32_000_000
PIECES = 64
"""how many weights there are, of equal size"""
REPEATS = 7
MODES = ("sync", "async")


@contextmanager
def group_of_one():
    """Torch's process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


def trained_tensors(mesh=None):
    """Weights and averages; divided, where there is a mesh."""
    named = {f"weight.{number}": torch.randn(PARAMETERS // PIECES // 500, 500) for number in range(PIECES)}
    groups = {
        "model": named,
        "optimizer": {f"{name}.{of}": w.clone() for name, w in named.items() for of in ("a", "b")},
    }
    if mesh is None:
        return groups
    return {
        group: {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in each.items()}
        for group, each in groups.items()
    }


def waits(tensors, folder):
    """The time until `save` returns, in each mode; the background ends off the clock."""
    savers = {mode: Saver(Run(folder / mode), Group(), TrainConfig(save=mode)) for mode in MODES}
    steps = dict.fromkeys(MODES, 0)

    def save(mode):
        steps[mode] += 1
        savers[mode].save(steps[mode], tensors, {}, None)

    def finish():
        for saver in savers.values():
            saver.wait()

    return compare({mode: lambda mode=mode: save(mode) for mode in MODES}, peer="sync", repeats=REPEATS, after=finish)


def rows():
    sizes = {"parameters": PARAMETERS, "megabytes": round(3 * 4 * PARAMETERS / 1e6)}
    with tempfile.TemporaryDirectory() as folder:
        yield {"form": "one process", **sizes, **waits(trained_tensors(), Path(folder))}
    with tempfile.TemporaryDirectory() as folder, group_of_one() as mesh:
        yield {"form": "parts", **sizes, **waits(trained_tensors(mesh), Path(folder))}


def main():
    keep_freed_memory()
    gate("tests/training/test_saving.py", "tests/runs/test_shards.py")
    append("saving", list(rows()))


if __name__ == "__main__":
    main()
