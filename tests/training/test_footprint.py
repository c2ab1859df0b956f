"""What a process of a training needs: counted, and measured of 1, 2 and 4 processes."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from seqloom.core.divided import part
from seqloom.training.distributed import join_group
from seqloom.training.footprint import Ranks, footprint
from seqloom.training.optimizers import optimizer
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.settings import resolve
from seqloom.training.sharding import divided_learner
from seqloom.training.step import Step
from tests.training.running import mixer
from tests.training.test_live_bytes import peak
from tests.training.together import together

BASE = ("data.source=stories:30:0", "training.device=cpu", "model.dim=64", "model.depth=4", "training.batch=16")
RUNS = {
    "alone": (mixer("attention"), *BASE),
    "parts": (mixer("attention"), *BASE, "training.accumulate=2"),
    "fsdp": (mixer("gated_delta"), *BASE, "model.context=64", "training.shard=fsdp"),
    "kept": (mixer("attention"), *BASE, "training.shard=fsdp", "training.reshard=false"),
    "muon": (mixer("attention"), *BASE, "training.shard=fsdp", "training.optimizer=muon"),
}


class Sent(TorchDispatchMode):
    """Counts what this rank sends, by rings, of the tensors that torch's collectives get."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.bytes = 0.0

    @override
    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        size, name = self.size, str(func)
        first = sum(tensor.nbytes for tensor in tree_leaves(args[:1]) if isinstance(tensor, Tensor))
        if name.startswith("c10d.allreduce_"):
            self.bytes += 2 * (size - 1) / size * first
        elif name.startswith(("c10d._allgather_base_", "c10d.broadcast_")):  # what is whole afterwards
            self.bytes += (size - 1) / size * first
        elif name.startswith(("c10d._reduce_scatter_base_", "_c10d_functional.all_gather_into_tensor")):  # a part
            self.bytes += (size - 1) * first
        return func(*args, **(kwargs or {}))


def written() -> int:
    """Bytes that this process has handed to the system, to files or to other processes."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def measure(path: Path, *changes: str) -> None:
    """Saves the bytes that a rank has and sends in a step, after one step."""
    config = resolve("tiny", changes)
    with join_group(config.training) as group:
        config, corpus = prepare_run(config)
        divided = config.training.shard != "none" and group.size > 1
        learner = divided_learner(config, corpus, group) if divided else learner_of(config, corpus)
        memory = optimizer(learner.model, config.training)
        step = Step(learner.train(), memory, config.training, group)
        count = config.training.accumulate
        ids = learner.objective.batch(0, 0, learner.model)["ids"]
        rows = [group.rows({"ids": some}) for some in ids.chunk(count)]
        gradients: list[int] = []

        def admit(losses: Any) -> None:
            gradients.append(sum(part(p.grad).nbytes for p in learner.parameters() if p.grad is not None))

        step(rows, [float(count)] * count, admit)
        before = written()
        step(rows, [float(count)] * count, admit)
        found = {"written": written() - before, "gradients": gradients[0]}
        with Sent(group.size) as sent:
            step(rows, [float(count)] * count, admit)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            step(rows, [float(count)] * count, admit)
        found["weights"] = sum(part(parameter).nbytes for parameter in learner.parameters())
        found["optimizer"] = sum(part(tensor).nbytes for tensor in memory.tensors().values())
        found["at_once"] = found["weights"] + found["optimizer"] + peak(profiled)
        found["sent"] = round(sent.bytes)
        rank = dist.get_rank() if group.size > 1 else 0
        path.with_name(f"{path.name}-{rank}").write_text(json.dumps(found))


def compare(path: Path, ranks: int, name: str) -> dict[str, int]:
    """Asserts that the plan has what rank 0 had, within 5%; returns what was measured."""
    needs = footprint(resolve("tiny", RUNS[name]), Ranks(ranks, 8), "cpu")
    found: dict[str, int] = json.loads(path.with_name(f"{path.name}-0").read_text())
    for title in ("weights", "gradients", "optimizer", "at_once", "sent"):
        assert getattr(needs, title) == pytest.approx(found[title], rel=0.05), title
    return found


@pytest.mark.parametrize("name", ["alone", "parts"])
def test_one_process(tmp_path: Path, name: str) -> None:
    measure(tmp_path / name, *RUNS[name])
    assert compare(tmp_path / name, 1, name)["sent"] == 0


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_several_processes(tmp_path: Path, ranks: int) -> None:
    jobs = [partial(measure, tmp_path / name, *changes) for name, changes in RUNS.items()]
    assert together(jobs, tmp_path / "messages", ranks) == [[""] * ranks] * len(jobs)
    for name in RUNS:
        found = compare(tmp_path / name, ranks, name)
        if name in ("alone", "parts"):  # gloo's sum of parts sends more than a ring
            assert found["written"] == pytest.approx(found["sent"], rel=0.05), "as the system counts it"


def test_hybrid_shares_within_a_machine() -> None:
    changes = [*RUNS["alone"], "training.shard=hybrid"]
    one, two = (footprint(resolve("tiny", changes), Ranks(size, 4)) for size in (4, 8))
    assert (one.weights, one.optimizer) == (two.weights, two.optimizer)
    assert one.weights == pytest.approx(one.parameters, rel=0.05), "four bytes by four processes"
    assert two.sent == pytest.approx(one.sent + one.weights, rel=1e-3), (
        "and the gradients of a part to the other machine"
    )
    alone = footprint(resolve("tiny", RUNS["alone"]), Ranks(1, 4))
    assert (alone.sent, alone.gathered, alone.summed) == (0, 0, 0)
    assert alone.operations == two.operations


def test_offloaded_weights_are_not_on_the_device() -> None:
    here, there = (
        footprint(resolve("tiny", [*RUNS["alone"], "training.shard=fsdp", *more]), Ranks(2, 8))
        for more in ([], ["training.offload=true"])
    )
    assert here.at_once - there.at_once == here.weights + here.optimizer


@pytest.mark.parametrize(
    ("preset", "changes", "ranks", "says"),
    [
        ("tiny", ["training.batch=6"], (4, 8), "4 processes cannot share training.batch=6 evenly"),
        ("tiny", [], (6, 4), "6 GPUs are no whole number of machines of 4"),
        ("tiny", ["training.lora.rank=2"], (1, 1), "leave training.lora out"),
        ("tiny", [mixer("gru"), "training.sequence=2"], (2, 8), "leave training.sequence out"),
        ("ngram/kneser_ney", [], (1, 1), "a model of kind ngram is fitted without gradients"),
    ],
)
def test_what_has_no_plan(preset: str, changes: list[str], ranks: tuple[int, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        footprint(resolve(preset, ["data.source=stories", *changes]), Ranks(*ranks))
