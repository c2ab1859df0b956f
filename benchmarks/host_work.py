"""The host's work in a captured training step: all that is done besides the replay, which is left out here.

`python benchmarks/host_work.py` trains models of one identity layer on a CPU, with graphs that compute nothing, and
reads the CPU time of the main thread, of all threads, and of the making of a batch alone.
"""

import tempfile
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from harness import append, gate

from seqloom.runs.metrics import Metrics
from seqloom.training.preparation import learner_of, with_text
from seqloom.training.settings import resolve
from seqloom.training.train import train

SIZES = {"paper/small": (), "context 1,024": ("model.context=1024", "training.batch=32")}
STEPS, SKIPPED = 3000, 200
IDENTITY = ("model.mixer={kind: identity}", "model.position.kind=none", "model.depth=1", "model.dim=8", "model.ffn=8")
RUN = ("data.source=stories:300:0", "training.device=cpu", f"training.batches={STEPS}", "training.save_every=100000")


class Nothing:
    """In place of a CUDA graph, event or stream: what it is asked for is done at once."""

    def __init__(self, **options):
        pass

    def elapsed_time(self, other):
        return 0.1

    def __getattr__(self, name):
        return lambda *given: None


@contextmanager
def graphs_of_nothing():
    """Inside the block steps are captured on a CPU, and a replay computes nothing."""
    instead = dict.fromkeys(("CUDAGraph", "Event", "Stream", "current_stream"), Nothing)
    instead |= {name: lambda *given, **named: nullcontext() for name in ("graph", "stream", "device")}
    with patch.multiple(torch.cuda, **instead), ExitStack() as stack:
        for name in ("capturable", "captured", "session"):
            stack.enter_context(patch(f"seqloom.training.{name}.takes_graphs", lambda device: True))
        yield


def host_work(changes):
    """Milliseconds of CPU in a step: of the main thread, of all threads, and of the making of its batch."""
    config = resolve("paper/small", [*IDENTITY, *RUN, *changes])
    clocks = []
    real = Metrics.append

    def append_row(metrics, row):
        real(metrics, row)
        if row["step"] in (SKIPPED, STEPS - 1) and "loss" in row:
            clocks.append((time.thread_time(), time.process_time()))

    with tempfile.TemporaryDirectory() as folder, graphs_of_nothing(), patch.object(Metrics, "append", append_row):
        train(config, Path(folder) / "run", say=lambda line: None)
    config, corpus = with_text(config)
    learner = learner_of(config, corpus)
    began = time.thread_time()
    for step in range(SKIPPED):
        learner.objective.batch(0, step, learner.model)
    batch = (time.thread_time() - began) / SKIPPED
    (main_before, all_before), (main_after, all_after) = clocks
    steps = STEPS - 1 - SKIPPED
    return {
        "main_thread_ms": round(1e3 * (main_after - main_before) / steps, 3),
        "all_threads_ms": round(1e3 * (all_after - all_before) / steps, 3),
        "batch_ms": round(1e3 * batch, 3),
    }


def main():
    gate("tests/training/test_captured.py", "tests/training/test_prefetch.py")
    append("host_work", [{"sizes": name, **host_work(changes)} for name, changes in SIZES.items()])


if __name__ == "__main__":
    main()
