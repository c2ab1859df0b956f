"""Stages of a training: what each changes, and that a run that stops around a border resumes with the same bits."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.core.model_config import ModelConfig
from seqloom.models.kinds import model_config
from seqloom.runs import model as stored
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.preset import preset_values
from seqloom.training.settings import resolve
from seqloom.training.stages import Stage, first_step, stage_at
from seqloom.training.train import Outcome
from tests.at_once import first
from tests.training.running import apart, at_row, newest, rows, same, tiny

Whole = Callable[..., Outcome]
LONGFORMER = "model.mixer={kind: longformer, heads: 2, window: 8, first_window: 4}"
ATTENTION = "model.mixer={kind: attention, heads: 2}"
STAGES = "training.stages=[{batches: 4, window: 3, context: 8}, {batches: 5, window: 12, lr: 3e-4}]"
CUTS = [(4, signal.SIGTERM), (5, signal.SIGKILL), (3, signal.SIGTERM), (4, signal.SIGKILL), (5, signal.SIGTERM)]


@pytest.mark.slow
@pytest.mark.parametrize(("step", "number"), first(2, CUTS), ids=str)
def test_a_run_stopped_around_a_border_goes_on(whole: Whole, out: Path, step: int, number: signal.Signals) -> None:
    changes = (LONGFORMER, STAGES, "training.batches=9")
    code = -number if number == signal.SIGKILL else 128 + number
    assert apart(out, *changes, arm=at_row(step, number)) == code
    messages: list[str] = []
    assert tiny(out, *changes, say=messages.append).step == 9
    assert "stage 2 of 2: 5 batches, window 12, learning rate 0.0003" in messages
    expected = whole(*changes).run.folder
    same(out, expected)
    assert newest(out).meta["surroundings"] == newest(expected).meta["surroundings"]


def test_what_a_run_of_stages_keeps(whole: Whole) -> None:
    outcome = whole(LONGFORMER, STAGES, "training.batches=9")
    steps = [row for row in rows(outcome.run.folder) if "loss" in row]
    assert [(row["stage"], row["lr"]) for row in steps] == [(1, 1e-3)] * 4 + [(2, 3e-4)] * 5
    model, _ = stored.load(outcome.run.folder)
    ids = torch.arange(16)[None] % 300
    assert model.config == outcome.model.config
    with torch.no_grad():
        assert model(ids).equal(outcome.model(ids))


@pytest.mark.slow
def test_each_stage_is_trained_with_its_settings(whole: Whole) -> None:
    """The first batches are those of a run of that window and context, the later ones are not."""
    staged = whole(ATTENTION, STAGES, "training.batches=9", "model.dropout=0")
    alone = whole("model.mixer={kind: attention, heads: 2, window: 3}", "model.context=8", "model.dropout=0")
    here, there = ([row["loss"] for row in rows(run.run.folder) if "loss" in row] for run in (staged, alone))
    assert len(here) == len(there) == 9
    assert here[0] != there[0]  # a table of learned positions of 16 tokens is another draw
    plain = whole(
        "model.mixer={kind: attention, heads: 2, window: 3}", "model.dropout=0", "training.stages=[{batches: 9}]",
        "training.batches=9",
    )  # fmt: skip
    windows = whole(
        ATTENTION, "model.dropout=0", "training.stages=[{batches: 4, window: 3}, {batches: 5}]", "training.batches=9"
    )
    one, other = ([row["loss"] for row in rows(run.run.folder) if "loss" in row] for run in (plain, windows))
    assert one[:4] == other[:4]
    assert all(a != b for a, b in zip(one[4:], other[4:], strict=True))


MODELS: dict[str, dict[str, Any]] = {
    "attention": {"mixer": {"kind": "attention", "heads": 2}, "position": "t5"},
    "longformer": {"mixer": {"kind": "longformer", "heads": 2, "first_window": 2, "window": 4}, "position": "rotary"},
    "spade": {"mixer": {"kind": "spade", "far": {"kind": "s4d"}, "near": {"kind": "attention", "window": 4}}},
    "one of two": {"mixer": [{"kind": "gla", "heads": 2}, {"kind": "attention", "heads": 2}]},
    "encoder": {"kind": "encoder", "mixer": {"kind": "attention", "heads": 2}, "position": "alibi"},
}


def config_of(name: str) -> ModelConfig:
    return model_config({"vocab": 50, "dim": 16, "depth": 4, "context": 16, "ffn": 32, "std": 0.3, **MODELS[name]})


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_another_window_has_the_same_weights(name: str) -> None:
    config = config_of(name)
    torch.manual_seed(0)
    model = config.build().eval()
    before = {name: id(weights) for name, weights in model.named_parameters()}
    whole = model(ids := torch.randint(50, (2, 16)))
    model.take_windows(config.with_window(3))
    assert {name: id(weights) for name, weights in model.named_parameters()} == before
    fresh = config.with_window(3).build().eval()
    fresh.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(model(ids), fresh(ids), rtol=0, atol=0)
        assert not torch.allclose(model(ids), whole)
        model.take_windows(config)
        torch.testing.assert_close(model(ids), whole, rtol=0, atol=0)


def test_windows_of_layers_grow_by_the_same_factor() -> None:
    mixer: Any = config_of("longformer").with_window(16).pattern[0]
    assert (mixer.first_window, mixer.window) == (8, 16)


def test_attention_without_a_window_stays_so_next_to_one_that_has_it() -> None:
    mixers = "[{kind: attention, heads: 2}, {kind: longformer, heads: 2, window: 8}]"
    stages = "training.stages=[{batches: 4, window: 3}, {batches: 5, window: 5}]"
    result: Any = resolve("tiny", [f"model.mixer={mixers}", "model.depth=2", stages]).model.pattern
    assert (result[0].window, result[1].window) == (None, 5)


def test_batches_follow_from_stages(tmp_path: Path) -> None:
    stages = "training.stages=[{batches: 4}, {batches: 5}]"
    assert resolve("tiny", [stages]).training.batches == 9
    assert preset_values("tiny", [stages, "training.batches=7"])["training"]["batches"] == 7
    path = tmp_path / "staged.yaml"
    path.write_text(
        "model: {mixer: {kind: she}}\ndata: {source: stories}\ntraining: {stages: [{batches: 3}, {batches: 1}]}"
    )
    assert resolve(str(path)).training.batches == 4


def test_which_stage_a_step_belongs_to() -> None:
    stages = [Stage(batches=2), Stage(batches=3), Stage(batches=1)]
    assert [stage_at(stages, step) for step in range(8)] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert [first_step(stages, number) for number in range(3)] == [0, 2, 5]
    assert (stage_at([], 7), first_step([], 0)) == (0, 0)


def test_each_stage_is_priced() -> None:
    config = resolve("tiny", [ATTENTION, STAGES])
    near, far = config.by_stage
    assert [(each.model.context, each.model.pattern[0].window) for each in (near, far)] == [(8, 3), (16, 12)]  # type: ignore[attr-defined]
    assert [(each.training.batches, each.training.lr) for each in (near, far)] == [(4, 1e-3), (5, 3e-4)]
    assert resolve("tiny").by_stage == [resolve("tiny")]


@pytest.mark.parametrize(
    "changes",
    [
        ["model.mixer.kind=she"],
        ["model.mixer.kind=she", "data.packed=true"],
        ["model.kind=encoder", ATTENTION, "training.objective.kind=masked_token"],
    ],
    ids=["next token", "packed", "masked token"],
)
def test_rows_of_another_length(changes: list[str]) -> None:
    config, corpus = prepare_run(resolve("tiny", ["data.source=stories:30:0", *changes]))
    objective = learner_of(config, corpus).objective
    whole = objective.batch(0, 0, torch.nn.Identity())["ids"]
    objective.resize(8)
    assert objective.batch(0, 0, torch.nn.Identity())["ids"].shape[1] == whole.shape[1] - 8
    objective.resize(16)
    assert objective.batch(0, 0, torch.nn.Identity())["ids"].equal(whole)


def test_a_probe_has_rows_of_one_length() -> None:
    config, corpus = prepare_run(resolve("tiny", ["training.objective.kind=probe"]))
    with pytest.raises(ValueError, match="the rows of this objective have one length"):
        learner_of(config, corpus).objective.resize(8)
