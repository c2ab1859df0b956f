"""A model that is divided among processes (FSDP2): losses and weights of one process, a share of its memory."""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from seqloom.core.divided import any_divided, part, whole
from seqloom.mixers import kinds
from seqloom.training.distributed import join_group
from seqloom.training.optimizers import optimizer
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.settings import resolve
from seqloom.training.sharding import divided_learner
from seqloom.training.step import Learner, Step
from tests.kinds import CAUSAL
from tests.training.running import mixer, newest, rows, tiny
from tests.training.together import Job, run, together

SHARD = "training.shard=fsdp"
BASE = ("training.precision=float64", "model.dropout=0.1", "training.batches=3", "training.clip=0.5")
SHORT = (*BASE, "training.accumulate=2", "model.depth=2")
ENCODER = ("model.kind=encoder", "training.objective.kind=masked_token", mixer("attention"), *BASE)
UNIVERSAL = ("model.kind=universal", "model.depth=3", mixer("attention"), *BASE)
RUNS = {
    "attention": (mixer("attention"), *SHORT),
    "muon": (mixer("attention"), "training.optimizer=muon", *SHORT),
    "handed on": (mixer("rwkv7"), *SHORT),
    "universal": UNIVERSAL,
    "halting": (*UNIVERSAL, "model.halt=true"),
    "encoder": ENCODER,
    "tied": (mixer("he"), "model.tie=true", *SHORT),
    "kept": (mixer("gated_delta"), *SHORT),
    "recomputed": (mixer("gru"), "training.recompute=layer", *SHORT),
    "packed": (mixer("attention"), *SHORT, "model.dropout=0.0", "data.packed=true"),
}
STREAMS = [kind for kind in CAUSAL if kinds()[kind].traits.streams]


def assert_close(folder: Path, expected: Path) -> None:
    """Losses within 1e-12, weights and the optimizer's averages within 1e-11."""
    losses = [{row["step"]: row["loss"] for row in rows(each) if "loss" in row} for each in (folder, expected)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12, rel=1e-12)
    actual, wanted = newest(folder).tensors, newest(expected).tensors
    for group in ("model", "optimizer"):
        assert actual[group].keys() == wanted[group].keys()
        for name, tensor in wanted[group].items():
            difference = (actual[group][name] - tensor).abs().max().item()
            assert difference <= 1e-11, f"{name} of the {group}"


QUICK = ("attention", "muon", "universal")
"""those in one pair of processes, with all that continues them"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every quick job that takes two processes, in one pair of them."""
    folder = tmp_path_factory.mktemp("together")
    jobs: list[Job] = [run(folder / name, *RUNS[name], SHARD) for name in QUICK]
    jobs += [run(folder / "cut", *RUNS["muon"], "training.batches=2", SHARD), run(folder / "cut", *RUNS["muon"], SHARD)]
    jobs += [run(folder / "loose", *RUNS["attention"], "training.batches=2", SHARD)]
    jobs += [run(folder / "loose", *RUNS["attention"])]
    jobs += [run(folder / "apart", mixer("attention"), only={1: (SHARD,)})]
    messages = together(jobs, folder / "messages")
    assert messages[:-1] == [["", ""]] * (len(jobs) - 1)
    assert "training.shard is none there and fsdp here" in messages[-1][0] + messages[-1][1]
    return folder


@pytest.mark.parametrize("name", QUICK)
def test_losses_and_weights_are_those_of_one_process(trained: Path, tmp_path: Path, name: str) -> None:
    tiny(tmp_path, *RUNS[name], say=lambda line: None)
    assert_close(trained / name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name not in QUICK])
def test_of_every_kind_of_model(tmp_path: Path, name: str) -> None:
    more = ("training.reshard=false",) if name == "kept" else ()
    job = run(tmp_path / "two", *RUNS[name], SHARD, *more)
    assert together([job], tmp_path / "messages") == [["", ""]]
    tiny(tmp_path / "one", *RUNS[name], say=lambda line: None)
    assert_close(tmp_path / "two", tmp_path / "one")


def test_a_divided_run_goes_on_divided_and_undivided(trained: Path, tmp_path: Path) -> None:
    assert_close(trained / "cut", trained / "muon")
    assert_close(trained / "loose", trained / "attention")
    tiny(tmp_path, *RUNS["muon"], "training.batches=2", say=lambda line: None)
    tiny(tmp_path, *RUNS["muon"], say=lambda line: None)
    assert_close(trained / "cut", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(22))
def test_every_mixer_that_streams(tmp_path: Path, number: int) -> None:
    few = STREAMS[number::22]
    settings = {kind: (f"model.mixer={setting_of(kind)}", *SHORT) for kind in few}
    jobs = [run(tmp_path / kind, *changes, SHARD) for kind, changes in settings.items()]
    messages = dict(zip(few, together(jobs, tmp_path / "messages"), strict=True))
    assert messages == {kind: ["", ""] for kind in few}
    for kind, changes in settings.items():
        tiny(tmp_path / f"{kind} alone", *changes, say=lambda line: None)
        assert_close(tmp_path / kind, tmp_path / f"{kind} alone")


def setting_of(kind: str) -> str:
    """A mixer as the command line takes it, at its smallest."""
    values = {"kind": kind, **kinds()[kind].examples[0]}
    return "{" + ", ".join(f"{name}: {'true' if value is True else value}" for name, value in values.items()) + "}"


def count_bytes(path: Path) -> None:
    """Saves the bytes that a rank has of weights, gradients and optimizer, and those of the largest unit."""
    config = resolve("tiny", [mixer("attention"), "model.depth=4", "model.dim=64", "data.source=stories:30:0", SHARD])
    with join_group(config.training) as group:
        config, corpus = prepare_run(config)
        learner = divided_learner(config, corpus, group) if group.size > 1 else learner_of(config, corpus)
        memory = optimizer(learner.model, config.training)
        batch = group.rows(learner.objective.batch(0, 0, learner.model))
        seen: dict[str, int] = {}
        Step(learner.train(), memory, config.training, group)([batch], [1.0], lambda losses: seen.update(held(learner)))
        averages = sum(part(tensor).nbytes for tensor in memory.tensors().values())
        root = {*learner.parameters()} - {p for block in learner.model.blocks for p in block.parameters()}
        largest = 4 * sum(parameter.numel() * 4 for parameter in root)
        assert any_divided(learner.parameters()) == (group.size > 1)
        rank = dist.get_rank() if group.size > 1 else 0
        torch.save([seen["bytes"] + averages, largest], path.with_name(f"{path.name}-{rank}"))


def held(learner: Learner) -> dict[str, int]:
    tensors = [*learner.parameters(), *(p.grad for p in learner.parameters() if p.grad is not None)]
    return {"bytes": sum(part(tensor).nbytes for tensor in tensors)}


@pytest.mark.parametrize(("ranks", "share"), [(2, 0.6), pytest.param(4, 0.3, marks=pytest.mark.slow)])
def test_a_rank_has_its_share_of_the_bytes(tmp_path: Path, ranks: int, share: float) -> None:
    count_bytes(tmp_path / "one")
    assert together([partial(count_bytes, tmp_path / "all")], tmp_path / "messages", ranks) == [[""] * ranks]
    (alone, largest) = torch.load(tmp_path / "one-0")
    for rank in range(ranks):
        assert torch.load(tmp_path / f"all-{rank}")[0] <= share * alone + largest


def mixed(path: Path, *changes: str) -> None:
    """Saves the losses of 20 steps in bfloat16."""
    outcome = tiny(path, mixer("attention"), "training.precision=bf16", "training.batches=20", *changes)
    assert outcome.step == 20


@pytest.mark.slow
def test_weights_in_bfloat16_learn_as_under_autocast(tmp_path: Path) -> None:
    jobs = [
        partial(mixed, tmp_path / "autocast", SHARD),
        partial(mixed, tmp_path / "weights", SHARD, "training.policy=weights"),
    ]
    assert together(jobs, tmp_path / "messages") == [["", ""]] * 2
    last = [[row["loss"] for row in rows(tmp_path / name) if "loss" in row][-1] for name in ("autocast", "weights")]
    assert last[0] == pytest.approx(last[1], abs=1e-2)


@pytest.mark.slow
def test_hybrid_divides_among_the_processes_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    jobs = [run(tmp_path / "four", *RUNS["attention"], "training.shard=hybrid", "training.accumulate=1")]
    assert together(jobs, tmp_path / "messages", 4) == [[""] * 4]
    tiny(tmp_path / "one", *RUNS["attention"], "training.accumulate=1", say=lambda line: None)
    assert_close(tmp_path / "four", tmp_path / "one")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["training.compile=true"], "training.shard=fsdp divides a model among processes, without training.compile"),
        (["training.pieces=2", mixer("gru")], "without training.pieces"),
        (["model.sublayers=reversible"], "without model.sublayers=reversible"),
        (["training.policy=weights"], "training.policy=weights gathers weights in bf16: set training.precision=bf16"),
        (["training.lora.rank=2"], "without training.lora"),
    ],
)
def test_it_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve("tiny", [mixer("attention"), *changes, SHARD])


def test_its_settings_need_it() -> None:
    with pytest.raises(ValueError, match=r"training\.offload is of a model that is divided: set training\.shard=fsdp"):
        resolve("tiny", ["training.offload=true"])


def test_a_run_keeps_its_identity() -> None:
    plain, divided = resolve("tiny", []), resolve("tiny", [SHARD])
    assert "shard" not in plain.model_dump(mode="json")["training"]
    assert plain.identity("") == divided.identity("")


def test_whole_tensors_are_as_they_are() -> None:
    tensor: Tensor = torch.ones(3)
    assert whole(tensor) is part(tensor) is tensor
