"""A Decision Transformer: its equation, what actions depend on, windows, training, playing, and its errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seqloom.cli import command
from seqloom.data.episodes import Environment, Episodes, read_episodes
from seqloom.evaluation.playing import play
from seqloom.mixers import kinds
from seqloom.models.decision import Decision
from seqloom.models.decision_config import DecisionConfig
from seqloom.models.kinds import model_config
from seqloom.models.verbs import ForwardVerb
from seqloom.training.objectives.actions import Actions, best_of, loss_of, require_same, windows
from seqloom.training.settings import resolve
from seqloom.training.train import train

B, T, S, A, LIMIT = 2, 5, 3, 4, 9
DISCRETE = Environment(name="few", states=S, actions=A)
CONTINUOUS = Environment(name="vectors", states=S, actions=2, continuous=True, low=(-2.0, 0.0), high=(2.0, 4.0))
CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never" and kind != "both_ways"]
MAZE = (
    *("data.source=episodes:TMaze-10:scripted:60", "model.dim=32", "model.ffn=32", "model.depth=1", "model.dropout=0"),
    *("model.context=12", "training.batch=32", "training.batches=60", "training.lr=0.003", "training.evaluate_every=0"),
    *("training.device=cpu",),
)


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def built(environment: Environment = DISCRETE, mixer: dict[str, Any] | None = None, **changes: Any) -> Decision:
    torch.manual_seed(0)
    sizes = {"vocab": LIMIT, "dim": 8, "depth": 2, "context": T, "ffn": 12, "std": 0.5, "dropout": 0.0}
    further = {"environment": environment.model_dump(), "mixer": mixer or {"kind": "attention", "heads": 2}}
    model = model_config({"kind": "decision", **sizes, **further, **changes}).build()
    assert isinstance(model, Decision)
    return model.double().eval()


def steps(environment: Environment = DISCRETE, rows: int = B) -> dict[str, Tensor]:
    draws = torch.Generator().manual_seed(1)
    actions = torch.randint(environment.actions, (rows, T), generator=draws)
    if environment.continuous:
        actions = torch.rand((rows, T, environment.actions), generator=draws, dtype=torch.float64) * 2 - 1
    return {
        "ids": torch.arange(2, 2 + T).repeat(rows, 1),
        "returns": torch.randn(rows, T, generator=draws, dtype=torch.float64),
        "states": torch.randn(rows, T, S, generator=draws, dtype=torch.float64),
        "actions": actions,
    }


@pytest.mark.parametrize("environment", [DISCRETE, CONTINUOUS], ids=lambda each: each.name)
def test_the_equation_token_by_token(environment: Environment) -> None:
    model = built(environment, mean=(1.0, 2.0, 3.0), deviation=(0.5, 1.0, 2.0), largest=4.0)
    given = steps(environment)
    tokens = []
    for t in range(T):
        time = model.token.weight[2 + t]
        state = (given["states"][:, t] - torch.tensor([1.0, 2.0, 3.0])) / torch.tensor([0.5, 1.0, 2.0])
        action = given["actions"][:, t]
        if not environment.continuous:
            action = one_hot(action, A).double()
        tokens += [
            given["returns"][:, t, None] / 4 @ model.of_return.weight.T + model.of_return.bias + time,
            state @ model.of_state.weight.T + model.of_state.bias + time,
            action @ model.of_action.weight.T + model.of_action.bias + time,
        ]
    assert model.embed_norm is not None
    x = model.embed_norm(torch.stack(tokens, 1))
    for block in model.blocks:
        x = block(x, ForwardVerb().call(0))
    expected = model.norm(x)[:, [3 * t + 1 for t in range(T)]] @ model.head.weight.T + model.head.bias
    actual = model(**given)
    torch.testing.assert_close(actual, expected.tanh() if environment.continuous else expected, rtol=0, atol=1e-12)
    assert actual.shape == (B, T, environment.actions)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", CAUSAL)
def test_an_action_depends_on_what_was_before_it_alone(kind: str) -> None:
    try:
        model = built(mixer={"kind": kind})
    except ValueError as error:
        pytest.skip(f"{kind} has no layer of these sizes: {error}")
    given, t = steps(rows=1), 3
    before = model(**given)
    own = {**given, "actions": given["actions"].clone()}
    own["actions"][:, t:] = (own["actions"][:, t:] + 1) % A
    for name in ("returns", "states"):
        own[name] = own[name].clone()
        own[name][:, t + 1 :] += 1
    torch.testing.assert_close(model(**own)[:, : t + 1], before[:, : t + 1], rtol=0, atol=1e-9)
    for name in ("returns", "states"):
        changed = {**given, name: given[name].clone()}
        changed[name][:, t] += 1
        if kind == "identity" and name == "returns":
            continue  # no token is mixed with others
        difference = (model(**changed)[:, t] - before[:, t]).abs().max()
        assert difference > 1e-9, name


def test_an_action_depends_on_the_one_before_it() -> None:
    model, given = built(), steps()
    changed = {**given, "actions": (given["actions"] + 1) % A}
    difference = (model(**changed) - model(**given)).abs().amax((0, 2))
    assert difference[0] == 0
    assert (difference[1:] > 1e-6).all()


@pytest.mark.parametrize("kind", ["attention", "mamba", "he"])
def test_what_is_after_the_end_of_an_episode_changes_nothing(kind: str) -> None:
    model, given = built(mixer={"kind": kind}), steps()
    keep = torch.ones(B, T, dtype=torch.bool)
    keep[1, 3:] = False
    result = model(keep=keep, **given)
    short = model(**{name: tensor[1:, :3] for name, tensor in given.items()})
    torch.testing.assert_close(result[1:, :3], short, rtol=0, atol=1e-11)
    torch.testing.assert_close(result[:1], model(**given)[:1], rtol=0, atol=1e-11)


def test_behavior_cloning_reads_no_return() -> None:
    model, given = built(returns="none"), steps()
    torch.testing.assert_close(model(**{**given, "returns": given["returns"] + 5}), model(**given), rtol=0, atol=0)


def test_the_price_counts_every_parameter() -> None:
    for changes in ({}, {"norm": "rms"}, {"norm_place": "after"}, {"sublayers": "reversible"}):
        model = built(**changes)
        assert model.cost(T).params == sum(parameter.numel() for parameter in model.parameters()), changes
    assert model.cost(2 * T).total > model.cost(T).total
    with pytest.raises(ValueError, match="no price of a token"):
        model.cost(T, "token")


@pytest.mark.slow
def test_reversible_layers_learn_the_same() -> None:
    model, given = built(sublayers="reversible"), steps()
    gradients = []
    for train_it in (True, False):  # in training a backward rebuilds what the layers read
        model.train(train_it).zero_grad()
        model(**given).pow(2).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=1e-10)


def episodes(environment: Environment = DISCRETE) -> Episodes:
    """Three episodes: of 7 steps, of 2 and of 4."""
    count = 13
    draws = np.random.default_rng(0)
    actions = draws.integers(A, size=count)
    if environment.continuous:
        actions = draws.uniform(environment.low, environment.high, (count, 2)).astype(np.float32)
    states = draws.standard_normal((count, S)).astype(np.float32)
    rewards = np.arange(count, dtype=np.float64)
    return Episodes(states, actions, rewards, np.array([0, 7, 9]), environment)


def test_windows_by_hand() -> None:
    config = built().config
    made = windows(episodes(), np.array([4, 1, 8, 9]), config)
    assert made["ids"].tolist() == [[4, 5, 6, 4, 4], [1, 2, 3, 4, 5], [1, 1, 1, 1, 1], [0, 1, 2, 3, 0]]
    assert made["keep"].sum(1).tolist() == [3, 5, 1, 4]
    assert made["returns"][0, :3].tolist() == [15, 11, 6]
    assert made["returns"][1].tolist() == [21, 20, 18, 15, 11]
    assert made["actions"][3, :4].tolist() == episodes().actions[9:13].tolist()
    np.testing.assert_array_equal(made["states"][1].numpy(), episodes().states[1:6])
    at_the_end = windows(episodes(), np.array([4, 8]), config.model_copy(update={"returns": "end"}))
    assert at_the_end["returns"][0].tolist() == [21, 21, 21]
    assert at_the_end["returns"][1, 0] == 15
    scaled = windows(episodes(CONTINUOUS), np.array([0]), built(CONTINUOUS).config)["actions"][0]
    np.testing.assert_allclose(scaled, episodes(CONTINUOUS).actions[:5] / 2 - [0, 1], atol=1e-6)


def test_rewards_at_the_end_keep_the_return() -> None:
    """As if all rewards came with the last step: the return, and what is to go before that step, are the same."""
    recorded = episodes()
    late = recorded.rewards * 0
    late[recorded.ends - 1] = recorded.returns
    moved = Episodes(recorded.states, recorded.actions, late, recorded.starts, recorded.environment)
    assert moved.returns.tolist() == recorded.returns.tolist()
    config, firsts = built().config, np.arange(recorded.steps)
    told = windows(recorded, firsts, config.model_copy(update={"returns": "end"}))
    assert told["returns"].equal(windows(moved, firsts, config)["returns"])
    assert not told["returns"].equal(windows(recorded, firsts, config)["returns"])


def test_the_best_share_of_the_episodes_is_learned_from() -> None:
    recorded = episodes()
    assert recorded.returns.tolist() == [21.0, 15.0, 42.0]
    assert best_of(recorded, 0.01).returns.tolist() == [42.0], "at least one"
    assert best_of(recorded, 0.7).returns.tolist() == [21.0, 42.0], "in the order of their recording"
    assert best_of(recorded, 1.0).identity == recorded.identity
    equal = Episodes(recorded.states, recorded.actions, recorded.rewards * 0, recorded.starts, recorded.environment)
    assert best_of(equal, 0.4).steps == 7, "of equal returns the first"


def test_a_run_learns_from_the_best_share() -> None:
    name = "episodes:TMaze-10:random:40"
    few, all_of_them = (
        resolve("decision/cartpole", [f"training.objective.best={share}"], name).training.objective
        for share in (0.25, 1)
    )
    assert "best" not in all_of_them.model_dump(), "the identity of older runs stays"
    environment = read_episodes(name).environment
    model = built(environment, returns="none").config
    data = resolve("decision/cartpole", [], name).data
    learned = few.build(model, data, 4, None)
    assert len(learned.train_on) == round(0.25 * 38)
    assert learned.train_on.returns.min() >= all_of_them.build(model, data, 4, None).train_on.returns.mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_an_episode_is_read_step_by_step(kind: str) -> None:
    model, given = built(mixer={"kind": kind}), steps()
    if not model.reads_on:
        pytest.skip(f"{kind} does not stream")
    with torch.no_grad():
        whole, memory = model(**given), None
        for t in range(T):
            before = given["actions"][:, t - 1] if t else None
            read = {name: given[name][:, t] for name in ("ids", "returns", "states")}
            action, memory = model.next_action(**read, before=before, memory=memory)
            torch.testing.assert_close(action, whole[:, t], rtol=1e-8, atol=1e-8)


def test_reversible_layers_are_not_read_step_by_step() -> None:
    model, given = built(sublayers="reversible"), steps()
    assert not model.reads_on
    with pytest.raises(ValueError, match="read an episode step by step"):
        model.next_action(given["ids"][:, 0], given["returns"][:, 0], given["states"][:, 0], None, None)


def test_the_triple_of_the_paper_and_not_of_seed_002() -> None:
    """A state goes with the return from its own step on: the first differs from the next by the reward of that step."""
    recorded = episodes()
    made = windows(recorded, np.array([0]), built().config)
    fallen = made["returns"][0, :-1] - made["returns"][0, 1:]
    assert fallen.tolist() == recorded.rewards[:4].tolist()
    np.testing.assert_array_equal(made["states"][0, 1].numpy(), recorded.states[1])
    assert made["actions"][0, 1] == recorded.actions[1]


def test_each_step_begins_one_window_an_epoch() -> None:
    objective = Actions(built().config, episodes(), episodes(), 1)
    for epoch in (0, 1):
        first = [objective.batch(3, 13 * epoch + step, torch.nn.Identity()) for step in range(13)]
        states = sorted(float(each["states"][0, 0, 0]) for each in first)
        assert states == sorted(map(float, episodes().states[:, 0]))


def test_losses_by_hand() -> None:
    logits = torch.tensor([[0.0, 0, 0, 0], [1.0, 0, 0, 0]])
    sums = torch.log(torch.tensor([4.0, torch.e + 3]))
    assert loss_of(logits, torch.tensor([2, 0])) == pytest.approx(float((sums[0] + sums[1] - 1) / 2), abs=1e-6)
    numbers = torch.tensor([[0.5, 0.0], [0.0, -1.0]])
    assert loss_of(numbers, torch.tensor([[0.0, 0.0], [0.0, 1.0]])) == pytest.approx((0.25 + 4) / 4, abs=1e-7)


@pytest.mark.parametrize("environment", [DISCRETE, CONTINUOUS], ids=lambda each: each.name)
def test_a_score_counts_every_action_once(environment: Environment) -> None:
    model = built(environment).float()
    objective = Actions(model.config, episodes(environment), episodes(environment), 2)
    row = objective.score(model, None)
    assert row["actions"] == 13
    pieces = [(0, 5), (5, 7), (7, 9), (9, 13)]
    total = 0.0
    for first, last in pieces:
        made = windows(episodes(environment), np.array([first]), model.config)
        result = model(**{name: tensor for name, tensor in made.items() if name != "keep"})[0].double()
        total += float(loss_of(result, made["actions"][0]).detach()) * (last - first)
    assert row["held_out"] == pytest.approx(total / 13, rel=1e-5)
    assert ("accuracy" in row) != environment.continuous


def test_sizes_follow_from_the_episodes() -> None:
    config = built().config.with_episodes(episodes())
    np.testing.assert_allclose(config.mean, episodes().states.mean(0), rtol=1e-5)
    np.testing.assert_allclose(config.deviation, episodes().states.std(0), rtol=1e-5)
    assert (config.vocab, config.largest, config.environment) == (7, 42.0, DISCRETE)
    limited = Environment(name="few", states=S, actions=A, limit=30)
    assert built().config.with_episodes(episodes(limited)).vocab == 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned the T-maze from its script."""
    pytest.importorskip("gymnasium")
    folder = tmp_path_factory.mktemp("runs") / "maze"
    outcome = train(resolve("decision/cartpole", [*MAZE, "training.batches=400"]), folder, say=lambda line: None)
    assert outcome.score is not None
    assert outcome.score["accuracy"] > 0.99
    return folder


@pytest.mark.slow
def test_it_remembers_the_cue_of_the_maze(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without memory half of the turns are right, and four fifths of 30 once in a thousand times."""
    assert command(["evaluate", str(run), "--returns", "1", "--episodes", "30"]) == 0
    title, _, head, _, row = capsys.readouterr().out.splitlines()
    assert title == f"{run} plays TMaze-10"
    assert head.split("  ")[0] == "return asked"
    asked, mean, error, lowest, highest, count = row.split()
    assert (asked, highest, count) == ("1.000", "1.000", "30")
    assert float(mean) > 0.8
    assert float(error) == pytest.approx((float(mean) * (1 - float(mean)) / 29) ** 0.5, abs=2e-3)
    assert lowest == ("1.000" if mean == "1.000" else "0")


@pytest.mark.slow
def test_a_run_is_scored_on_other_episodes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["evaluate", str(run), "--data", "episodes:TMaze-10:scripted:5:9", "--json"]) == 0
    assert '"actions": 55, "accuracy": 1.0' in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "episodes:Pendulum-v1:random:2"],
            "Pendulum-v1 has continuous actions, and the model learned",
        ),
        (["--data", "episodes:CartPole-v1:random:2"], "CartPole-v1 has 4 for states, and the model learned 2"),
        (["--data", "stories:3"], "episodes are named episodes:ENV:POLICY"),
        (["--data", "episodes:TMaze-10:random:2", "--stride", "3"], "--stride is for text"),
        (["--returns", "1", "--data", "stories:3"], "--returns plays episodes: leave out --data"),
        (["--returns", "1", "--pseudo"], "--returns plays episodes: leave out --pseudo"),
        (["--returns", "much"], "--returns must be a list of numbers, e.g. 50,200,500, not 'much'"),
        (["--returns", "inf"], "returns are finite numbers"),
        (["--returns", "1", "--episodes", "200000"], "from 1 to 100,000 episodes are played"),
        (["--episodes", "3"], "--episodes needs --returns"),
        ([], "Missing option '--data'"),
    ],
    ids=str,
)
def test_impossible_evaluations(run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["evaluate", str(run), *words]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "training.objective.kind=next_token"], "choose training.objective.kind=actions"),
        (["--set", "model.position=learned"], "each step has an embedding of its own"),
        (["--set", "model.tie=true"], "model.tie"),
        (["--set", "data.packed=true"], "episodes have no use for data.packed"),
        (["--set", "data.tokenizer=bytes"], "episodes have no use for data.tokenizer"),
        (["--data", "stories:30"], "episodes are named episodes:ENV:POLICY"),
        (["--set", "model.returns=all"], "model.returns: input should be 'to_go', 'end' or 'none'"),
        (["--set", "training.memory=carry"], "training.memory=carry"),
    ],
    ids=str,
)
def test_impossible_trainings(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["train", "decision/cartpole", *words, "--out", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed
    assert not (tmp_path / "none").exists()


def test_other_objectives_and_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "tiny", "--set", "training.objective.kind=actions", "--out", str(tmp_path / "none")]
    assert command(words) == 2
    assert "choose model.kind=decision" in capsys.readouterr().err
    assert command(["train", "tiny", "--data", "episodes:TMaze:random", "--out", str(tmp_path / "none")]) == 2
    assert "episodes are no text" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    changes = [*MAZE, "training.schedule.kind=constant", "training.schedule.warmup=2", "model.dropout=0.1"]
    whole = train(resolve("decision/cartpole", [*changes, "training.batches=6"]), tmp_path / "whole")
    train(resolve("decision/cartpole", [*changes, "training.batches=3"]), tmp_path / "parts")
    parts = train(resolve("decision/cartpole", [*changes, "training.batches=6"]), tmp_path / "parts")
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, parts.model.state_dict()[name]), name


@pytest.mark.slow
def test_continuous_actions_with_mamba(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    changes = [word for change in MAZE for word in ("--set", change) if "data.source" not in change]
    changes = changes[1:] if changes[0] == "--set" == changes[1] else changes
    source = ["--data", "episodes:Pendulum-v1:mixed:4", "--set", "model.mixer.kind=mamba"]
    out = str(tmp_path / "run")
    few = ["--set", "training.batches=3", "--set", "training.schedule.warmup=0"]
    assert command(["train", "decision/cartpole", *changes, *source, *few, "--out", out]) == 0
    assert "per action, squared" in capsys.readouterr().out
    assert command(["evaluate", out, "--returns", "-500,-100.5", "--episodes", "1", "--json"]) == 0
    assert '"environment": "Pendulum-v1", "returns": [{"asked": -500.0, "mean": -' in capsys.readouterr().out
    assert command(["evaluate", out, "--data", "episodes:CartPole-v1:random:2"]) == 2
    assert "has discrete actions, and the model learned continuous ones" in capsys.readouterr().err
    assert command(["generate", out, "Once"]) == 2
    assert "a model of kind decision cannot generate text" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "expected"), [("to_go", 1), ("end", 0)])
def test_what_is_read_in_play_is_what_was_read_in_training(
    asked: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an episode of CartPole, whose reward of each step is 1."""
    pytest.importorskip("gymnasium")
    environment = Environment(name="CartPole-v1", states=4, actions=2, limit=500)
    model = built(environment, vocab=500, returns=asked).float()
    called: list[dict[str, Tensor]] = []
    forward = Decision.forward

    def listening(self: Decision, **given: Any) -> Tensor:
        called.append({name: tensor.clone() for name, tensor in given.items()})
        return forward(self, **given)

    monkeypatch.setattr(Decision, "forward", listening)
    (played,) = play(model, [9.0], 1)
    length = len(called)
    assert played.reached == (float(length),)
    states = np.stack([given["states"][0, -1].numpy() for given in called])
    actions = np.array([int(given["actions"][0, -2]) for given in called[1:]] + [0])
    for t, given in enumerate(called):
        first = max(t - T + 1, 0)
        assert given["ids"][0].tolist() == list(range(first, t + 1))
        assert given["returns"][0].tolist() == [9.0 - expected * step for step in range(first, t + 1)]
        np.testing.assert_array_equal(given["states"][0].numpy(), states[first : t + 1])
        assert given["actions"][0, :-1].tolist() == actions[first:t].tolist()
        assert given["actions"][0, -1] == 0, "not chosen yet"


@pytest.mark.slow
def test_actions_are_drawn_by_their_probabilities() -> None:
    from seqloom.evaluation.playing import _choose_actions

    logits = torch.log(torch.tensor([[0.1, 0.2, 0.7]], dtype=torch.float64)).repeat(4000, 1)
    draws = [np.random.default_rng(number) for number in range(4000)]
    environment = Environment(states=1, actions=3)
    shares = np.bincount(_choose_actions(logits, environment, draws), minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.7], atol=0.03)


@pytest.mark.slow
def test_episodes_begin_alike_for_every_return_and_in_any_company() -> None:
    pytest.importorskip("gymnasium")
    environment = Environment(name="CartPole-v1", states=4, actions=2, limit=500)
    model = built(environment, vocab=500, returns="none").float()
    first, second = play(model, [5.0, 50.0], 3)
    assert first.reached == second.reached
    assert play(model, [5.0], 3, batch=1)[0].reached == first.reached
    assert play(model, [5.0], 3, seed=1)[0].reached != first.reached


@pytest.mark.slow
def test_an_episode_without_end() -> None:
    pytest.importorskip("gymnasium")
    environment = Environment(name="MountainCar-v0", states=2, actions=3, limit=200)
    model = built(environment, vocab=50).float()
    with pytest.raises(ValueError, match="MountainCar-v0: an episode without end: it goes on after 50 steps"):
        play(model, [-100.0], 1)


def test_other_objectives_do_not_play() -> None:
    model: Any = model_config({"kind": "decoder", "vocab": 9, "dim": 8, "depth": 1, "mixer": {"kind": "he"}}).build()
    with pytest.raises(ValueError, match=r"a model of kind decoder plays no episodes: use one of model\.kind=decision"):
        play(model, [1.0], 1)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"actions": torch.rand(B, T, A)}, "actions are whole numbers below 4.*the model learned discrete actions"),
    ({"actions": torch.full((B, T), A)}, "actions must lie in 0 … 3, not 4 … 4"),
    ({"states": torch.zeros(B, T, S + 1)}, r"states are \(2, 5, 3\)"),
    ({"returns": None}, "give returns, states and actions"),
    ({"ids": torch.full((B, T), LIMIT)}, "ids must lie in"),
    ({"returns": torch.zeros(B, T, dtype=torch.long)}, "returns are numbers"),
]


@pytest.mark.graph  # the shape hook would refuse them first
@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_steps(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        built()(**{**steps(), **changes})


@pytest.mark.graph  # as above
def test_wrong_vectors() -> None:
    given = {**steps(CONTINUOUS), "actions": steps()["actions"]}
    with pytest.raises(ValueError, match=r"actions are numbers.*the model learned continuous actions"):
        built(CONTINUOUS)(**given)
    with pytest.raises(TypeError, match="states are a tensor"):
        built()(**{**steps(), "states": [1.0]})
    with pytest.raises(ValueError, match="cannot leave layers out"):
        built().exits(torch.zeros(1, 1, dtype=torch.long))


def test_environments_that_differ() -> None:
    other = CONTINUOUS.model_copy(update={"high": (2.0, 5.0), "name": "wider"})
    with pytest.raises(ValueError, match=r"wider has \(2.0, 5.0\) for high, and the model learned \(2.0, 4.0\)"):
        require_same(CONTINUOUS, other)
    require_same(CONTINUOUS, CONTINUOUS.model_copy(update={"limit": 3}))


def test_settings_are_read_again() -> None:
    config = built().config.with_episodes(episodes(CONTINUOUS))
    again = model_config(config.model_dump(mode="json"))
    assert isinstance(again, DecisionConfig)
    assert again == config
