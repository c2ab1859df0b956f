"""Objectives: what they weight, what they carry from step to step, when they end a training, what they identify."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.cli import command
from seqloom.core.objective import Batch, Carried, Check, Objective, Pass
from seqloom.models.kinds import model_config
from seqloom.runs.layout import find_run
from seqloom.runs.model import load, save
from seqloom.training.config import RunConfig
from seqloom.training.loop import Updates, micro_batches
from seqloom.training.objectives import objective_of
from seqloom.training.objectives.next_token import NextTokenConfig
from seqloom.training.objectives.probe import ProbeConfig
from seqloom.training.optimizers import optimizer
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from seqloom.training.train import train
from tests.training.running import SMALL, newest, rows, same, tiny
from tests.training.stepping import decoder, descent

PROBE = ("training.objective.kind=probe", "training.objective.probe=parity:length=6", "data.source=stories:30:0")


class Weighted(Objective):
    """Rows with different numbers of targets, an offset of its own, and a running sum of its losses."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.nn.Parameter(torch.zeros(()))

    def batch(self, seed: int, step: int, model: Any) -> Batch:
        generator = torch.Generator().manual_seed(seed + step)
        ids = torch.randint(1, 30, (4, 9), generator=generator)
        return {"ids": ids, "asked": torch.arange(9) <= torch.tensor([[1], [7], [3], [2]])}

    def targets(self, batch: Batch) -> int:
        return int(batch["asked"][:, 1:].sum())

    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        ids, asked = batch["ids"], batch["asked"][:, 1:]
        log_p = model(ids[:, :-1]).log_softmax(2).gather(2, ids[:, 1:, None])[:, :, 0]
        loss = -(log_p[asked] * (1 + carried.get("sum", torch.zeros(())).cos())).mean()
        total = carried.get("sum", torch.zeros(())) + loss.detach()
        losses = {"first": loss / 2, "second": loss / 2 + (self.offset - 1).square()}
        return Pass(losses, carried={"sum": total})

    def score(self, model: Any, held_out: Any) -> dict[str, Any]:
        return {"held_out": float((self.offset - 1).detach().square())}

    def summary(self, row: dict[str, Any]) -> str:
        return f"off by {row['held_out']:.3f}"


@pytest.mark.slow
def test_the_loss_of_a_batch_does_not_depend_on_its_micro_batches() -> None:
    result: dict[int, tuple[float, list[Tensor]]] = {}
    for pieces in (1, 2, 4):
        model, objective = decoder("she", dropout=0.0), Weighted()
        objective.losses = lambda model, batch, carried, real=objective.losses: Pass(real(model, batch, {}).losses)
        config = resolve("tiny", [f"training.accumulate={pieces}"]).training
        update = Updates(Learner(model, objective), descent(model, 1.0), config, seed=3)
        result[pieces] = update(0).loss, [weights.detach() for weights in model.parameters()]
    for loss, weights in result.values():
        assert loss == pytest.approx(result[1][0], rel=1e-6)
        for one, other in zip(weights, result[1][1], strict=True):
            assert torch.allclose(one, other, atol=1e-6)


def test_micro_batches_are_rows_in_order() -> None:
    batch = {"ids": torch.arange(12).view(6, 2), "weight": torch.arange(6)}
    parts = micro_batches(batch, 3)
    assert [part["weight"].tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
    assert [part["ids"].shape for part in parts] == [(2, 2)] * 3


@pytest.mark.slow
def test_what_is_carried_and_learned_resumes_bit_for_bit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NextTokenConfig, "build", lambda *values: Weighted())
    changes = ("training.optimizer=adamw", "training.accumulate=2")
    whole = tiny(out / "whole", *changes)
    tiny(out / "cut", *changes, "training.batches=4")
    cut = tiny(out / "cut", *changes)
    assert [row for row in rows(out / "cut") if "loss" in row] == [row for row in rows(out / "whole") if "loss" in row]
    one, other = (newest(out / name).tensors for name in ("whole", "cut"))
    assert one.keys() == other.keys() == {"model", "objective", "optimizer", "carried"}
    for group, named in one.items():
        for name, tensor in named.items():
            assert tensor.equal(other[group][name]), f"{group} {name}"
    assert one["carried"]["sum"] > 1
    assert one["objective"]["offset"] != 0
    assert "objective.offset.exp_avg" in one["optimizer"]
    assert whole.summary == cut.summary != ""
    load(out / "cut")  # the model alone


SCORING = "scoring held-out data"


@pytest.mark.slow
def test_a_solved_objective_ends_the_training_for_good(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objective, "check", lambda self, model, step: Check(f"seen {step}", step == 5))
    notes: list[str] = []

    class Noted:
        def __enter__(self) -> Any:
            return lambda amount=1, note="": notes.append(note)

        def __exit__(self, *error: object) -> None: ...

    first = tiny(out, show=lambda *values, **named: Noted())
    assert (first.step, first.asked) == (5, None)
    reported = [note.rpartition(", ")[2] for note in notes]
    assert reported == ["seen 1", "seen 2", "seen 3", "seen 4", SCORING, "seen 5", SCORING]
    assert rows(out)[-1].keys() >= {"step", "held_out"}
    before = rows(out)
    assert tiny(out).step == 5
    assert rows(out) == before


def test_a_text_s_default_objective_is_no_part_of_the_identity(out: Path) -> None:
    plain, named = (resolve("tiny", [*SMALL, *changes]) for changes in ([], ["training.objective.kind=next_token"]))
    assert plain.identity("text") == named.identity("text")
    assert "objective" not in plain.identity("text")["training"]


@pytest.mark.slow
def test_a_probe_is_a_run(out: Path) -> None:
    config = resolve("tiny", [*PROBE, "training.batches=6", "training.save_every=2"])
    assert (config.model.vocab, config.model.context) == (2, 6)
    outcome = train(config, out, say=lambda line: None)
    assert outcome.corpus is None
    assert outcome.summary.startswith("right ")
    assert rows(out)[-1]["answers"][0]["asked"] > 0
    settings = find_run(out).settings
    assert json.loads(settings["data"]["identity"].removeprefix("parity ")) == {"length": 6}
    assert "source" not in settings["data"]
    assert settings["training"]["batches"] == 6  # judged after so many: another length is another run
    with pytest.raises(ValueError, match=r"other settings: training.batches is 6 there and 7 here"):
        train(resolve("tiny", [*PROBE, "training.batches=7"]), out, say=lambda line: None)


@pytest.mark.slow
def test_a_probe_is_trained_by_the_command(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [word for change in (*PROBE, "training.batches=2") for word in ("--set", change)]
    assert command(["train", "tiny", "--out", str(out), *changes]) == 0
    assert f"{out}: 2 batches, right " in capsys.readouterr().out


def test_the_answer_head_is_optimized() -> None:
    config = resolve("tiny", [PROBE[0], "training.objective.probe=compression"])
    objective = config.training.objective.build(config.model, config.data, 2, None)
    names = optimizer(decoder("she"), config.training, objective).parts[0].param_groups
    shapes = {tuple(weights.shape) for group in names for weights in group["params"]}
    assert {tuple(weights.shape) for weights in objective.parameters()} <= shapes


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("training.objective.kind=nxt_token", "unknown training.objective 'nxt_token'; did you mean 'next_token'?"),
        ("training.objective={kind: probe, probe: mqr}", "unknown probe 'mqr'; did you mean 'mqar'?"),
        ("training.objective={kind: probe, difficulty: 16}", "training.objective.difficulty"),
        ("training.objective={kind: next_token, probe: mqar}", "unknown setting 'training.objective.probe'"),
        ("training.objective.difficulty=3", "training.objective needs a kind"),
    ],
)
def test_settings_of_objectives_that_do_not_fit(
    change: str, error: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["train", "tiny", "--out", str(out), "--set", change]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1
    assert not out.exists()


def test_another_objective_drops_the_settings_of_the_one_before() -> None:
    changes = ["training.objective={kind: probe, difficulty: 3}", "training.objective.kind=next_token"]
    assert resolve("tiny", changes).training.objective == NextTokenConfig()
    assert resolve("tiny", changes[:1]).training.objective == ProbeConfig(difficulty=3)


def test_a_comparison_of_texts_takes_no_probe() -> None:
    config: RunConfig = resolve("tiny", PROBE)
    with pytest.raises(ValueError, match=r"training\.objective\.kind=probe reads no text: choose another"):
        with_text(config)


@pytest.mark.slow
def test_tiny_runs_are_the_same_either_way(out: Path) -> None:
    tiny(out / "one")
    tiny(out / "two", "training.objective.kind=next_token")
    same(out / "one", out / "two")


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"kind": "decoder"}, "next_token"),
        ({"kind": "encoder", "mixer": {"kind": "fnet"}}, "masked_token"),
        ({"kind": "classifier", "labels": ["no", "yes"], "mixer": {"kind": "fnet"}}, "labels"),
    ],
)
def test_a_model_that_was_not_trained_here_is_scored_by_the_objective_of_its_kind(
    settings: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    sizes = {"vocab": 30, "dim": 8, "depth": 1, "context": 8, "ffn": 8}
    save(model_config({"mixer": {"kind": "he"}, **sizes, **settings}).build(), tmp_path / "saved")
    assert objective_of(find_run(tmp_path / "saved")).kind == kind
