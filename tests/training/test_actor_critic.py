"""Actor and critic: returns and losses by hand, batches of played episodes, a run, and its errors."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.cli import command
from seqloom.data.episodes import Environment
from seqloom.evaluation.playing import play
from seqloom.models.decision import Decision
from seqloom.models.kinds import model_config
from seqloom.training.objectives.actor_critic import ActorCritic, ActorCriticConfig, discount_returns
from seqloom.training.settings import resolve
from seqloom.training.train import train

pytest.importorskip("gymnasium")
FEW = ["training.batch=4", "training.evaluate_every=0", "training.device=cpu"]


def agent(std: float = 0.5) -> Decision:
    torch.manual_seed(0)
    environment = Environment(name="TMaze-10", states=2, actions=3, limit=40)
    sizes = {"dim": 8, "depth": 1, "context": 40, "ffn": 8, "dropout": 0.0, "std": std, "vocab": 40}
    further = {"environment": environment.model_dump(), "returns": "none", "residual": "gru"}
    model = model_config({"kind": "decision", **sizes, **further, "mixer": {"kind": "gru"}}).build()
    assert isinstance(model, Decision)
    return model


def test_gains_by_hand() -> None:
    rewards = np.array([[0.0, 1.0], [0.0, 0.0], [4.0, 0.0]])
    assert discount_returns(rewards, 0.5).tolist() == [[1.0, 1.0], [2.0, 0.0], [4.0, 0.0]]


@pytest.mark.slow
def test_losses_step_by_step() -> None:
    model, config = agent(), ActorCriticConfig(discount=0.9, critic=0.25, entropy=0.1)
    objective = ActorCritic(config, 8, 3, 0)
    batch = objective.batch(1, 2, model)
    read = {name: tensor for name, tensor in batch.items() if name not in ("gains", "keep")}
    x, _ = model.features_with_extras(read["ids"], None, None, read["returns"], read["states"], read["actions"])
    logits = model(**read)
    sums, count = {"actor": 0.0, "critic": 0.0, "entropy": 0.0}, 0
    for row, t in batch["keep"].nonzero().tolist():
        p = logits[row, t].softmax(-1).tolist()
        value = float(objective.value(model.norm(x[row, 3 * t + 1])).detach())
        gain = float(batch["gains"][row, t])
        sums["actor"] -= math.log(p[int(batch["actions"][row, t])]) * (gain - value)
        sums["critic"] += 0.25 * (gain - value) ** 2
        sums["entropy"] += 0.1 * sum(each * math.log(each) for each in p)
        count += 1
    result = objective.losses(model, batch, {}).losses
    assert count == objective.targets(batch)
    for name, total in sums.items():
        assert float(result[name].detach()) == pytest.approx(total / count, rel=1e-4, abs=1e-6), name


@pytest.mark.slow
def test_the_critic_does_not_move_the_actor() -> None:
    model, objective = agent(), ActorCritic(ActorCriticConfig(), 8, 3, 0)
    losses = objective.losses(model, objective.batch(0, 0, model), {}).losses
    losses["actor"].backward()
    assert objective.value.weight.grad is None
    assert model.head.weight.grad is not None


@pytest.mark.slow
def test_a_batch_is_what_the_model_did() -> None:
    """Each action follows from the draws of its episode and from what the model says of the whole episode at once."""
    model, objective = agent(), ActorCritic(ActorCriticConfig(), 8, 4, 0)
    batch = objective.batch(5, 7, model)
    shares = model.eval()(batch["ids"], batch["keep"], batch["returns"], batch["states"], batch["actions"]).softmax(-1)
    for row in range(4):
        draws = np.random.default_rng((5, 7, row))
        draws.integers(2**31)
        for t in range(int(batch["keep"][row].sum())):
            sums = shares[row, t].double().cumsum(-1)
            assert int(batch["actions"][row, t]) == min(int((sums < draws.random()).sum()), 2)


@pytest.mark.slow
def test_a_batch_follows_from_seed_step_and_model() -> None:
    model, objective = agent(), ActorCritic(ActorCriticConfig(), 8, 4, 0)
    first, again = objective.batch(0, 3, model), objective.batch(0, 3, model)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert model.training
    others = [objective.batch(1, 3, model), objective.batch(0, 4, model)]
    with torch.no_grad():
        model.head.weight.mul_(-3)
    others.append(objective.batch(0, 3, model))
    for other in others:
        assert not (
            other["actions"].shape == first["actions"].shape and torch.equal(other["actions"], first["actions"])
        )


@pytest.mark.slow
def test_a_run_goes_on_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.training.objectives.actor_critic.EPISODES", 4)
    whole = train(resolve("decision/maze", [*FEW, "training.batches=2"]), tmp_path / "whole")
    train(resolve("decision/maze", [*FEW, "training.batches=1"]), tmp_path / "parts")
    parts = train(resolve("decision/maze", [*FEW, "training.batches=2"]), tmp_path / "parts")
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, parts.model.state_dict()[name]), name
    assert whole.score is not None
    assert whole.score["held_out"] == -whole.score["return"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one batch."""
    folder = tmp_path_factory.mktemp("runs") / "maze"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.training.objectives.actor_critic.EPISODES", 4)
        train(resolve("decision/maze", [*FEW, "training.batches=1"]), folder, say=lambda line: None)
    return folder


@pytest.mark.parametrize(("words", "count"), [(["--episodes", "3"], 3), ([], 20)], ids=str)
def test_a_model_that_reads_no_return_plays(
    words: list[str], count: int, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row, which says nothing of a return that was asked for."""
    assert command(["evaluate", str(run), *words]) == 0
    title, _, head, _, row = capsys.readouterr().out.splitlines()
    assert title == f"{run} plays TMaze-10"
    assert head.startswith("reached, mean")
    assert row.split()[-1] == str(count)
    assert command(["evaluate", str(run), *words, "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["returns"]
    assert (only["asked"], len(only["reached"])) == (None, count)


def test_a_run_that_learned_by_playing_is_scored_on_recorded_episodes(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    assert command(["evaluate", str(run), "--data", "episodes:TMaze-10:scripted:5", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["actions"] == 55
    assert row["held_out"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--returns", "20,500", "--episodes", "2"], "reads no return (model.returns=none): leave out --returns"),
        (["--data", "TMaze-10"], "TMaze-10: recorded episodes are named episodes:ENV:POLICY[:COUNT[:SEED]]; leave out"),
        (["--data", "episodes:TMaze-100:scripted:2"], "an episode has 101 steps, and the model of"),
        (["--data", "episodes:CartPole-v1:random:2"], "CartPole-v1 has 4 for states, and the model learned 2"),
        (["--episodes", "2", "--data", "stories:3"], "--episodes plays episodes: leave out --data"),
        (["--stride", "3"], "--stride is for text"),
    ],
    ids=str,
)
def test_impossible_evaluations(
    words: list[str],
    message: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    assert command(["evaluate", str(run), *words]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]
    assert len(printed) == 1


def test_a_model_plays_for_a_return_or_for_none() -> None:
    model = agent()
    (row,) = play(model, None, 3)
    assert row.asked is None
    assert row.reached == play(model, [0.0], 3)[0].reached
    reads_return = model_config({**model.config.model_dump(), "returns": "to_go"}).build()
    assert isinstance(reads_return, Decision)
    with pytest.raises(ValueError, match="the model reads a return: give at least one"):
        play(reads_return, None, 3)


@pytest.mark.slow
def test_it_learns_to_remember_the_cue(tmp_path: Path) -> None:
    """Without memory half of the turns are right."""
    outcome = train(resolve("decision/maze", ["training.batches=250", "training.device=cpu"]), tmp_path / "run")
    assert outcome.score is not None
    assert outcome.score["return"] > 0.9


REFUSED: list[tuple[list[str], str]] = [
    (
        ["decision/maze", "--data", "Pendulum-v1"],
        "Pendulum-v1 cannot be learned by playing: its actions are continuous",
    ),
    (["decision/maze", "--data", "TMaze-9"], "a T-maze has a length of 10 to 100, not 9"),
    (["decision/maze", "--data", "stories"], "unknown environment 'stories'"),
    (["decision/maze", "--set", "model.returns=to_go"], "set model.returns=none"),
    (["decision/maze", "--set", "data.packed=true"], "episodes have no use for data.packed"),
    (["tiny", "--set", "training.objective.kind=actor_critic"], "choose model.kind=decision"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=str)
def test_refusals_of_actor_critic(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["train", *words, "--out", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_plan_says_that_the_time_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["train", "decision/maze", "--plan"]) == 0
    assert "time         not known: a step lasts as long as the model plays" in capsys.readouterr().out
    assert command(["study", "maze", "gru", "--lengths", "10", "--batches", "7", "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "1 runs of 7 batches in all, 0 finished, one after another" in printed
    assert "not included: models that play, whose steps cannot be timed before" in printed
    assert "hours" not in printed


def test_an_environment_without_a_limit() -> None:
    config: Any = agent().config
    with pytest.raises(ValueError, match="its episodes have no limit"):
        config.with_environment(Environment(name="long", states=1, actions=2))
