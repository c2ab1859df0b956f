"""Episodes: the T-maze by hand and by gymnasium's own check, policies, returns to go, the store, and wrong names."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.cli import command
from seqloom.data.corpora import read
from seqloom.data.episodes import Environment, Episodes, open_environment, read_episodes, sides
from seqloom.data.episodes.policies import policy, scripted_policy
from seqloom.data.episodes.recording import record

gymnasium = pytest.importorskip("gymnasium")


def by_hand() -> Episodes:
    """Two episodes, of three steps and of two."""
    environment = Environment(name="hand", states=1, actions=2)
    return Episodes(
        np.arange(5, dtype=np.float32)[:, None],
        np.array([0, 1, 1, 0, 1]),
        np.array([1.0, 0.0, 2.0, -1.0, 5.0]),
        np.array([0, 3]),
        environment,
    )


def test_returns_to_go_by_hand() -> None:
    episodes = by_hand()
    assert episodes.to_go.tolist() == [3, 2, 2, 4, 5]
    assert episodes.returns.tolist() == [3, 4]
    assert episodes.times.tolist() == [0, 1, 2, 0, 1]
    assert episodes.lengths.tolist() == [3, 2]
    second = episodes.select(np.array([False, True]))
    assert (second.states[:, 0].tolist(), second.starts.tolist(), second.to_go.tolist()) == ([3, 4], [0], [4, 5])


def test_the_maze_is_one_of_gymnasium() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(open_environment("TMaze-10").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("right", [True, False])
def test_the_maze_by_hand(right: bool) -> None:
    maze = open_environment("TMaze-12")
    cues = set()
    for seed in range(8):
        state, _ = maze.reset(seed=seed)
        cue = int(state[0])
        cues.add(cue)
        assert state.tolist() == [cue, 0]
        assert maze.step(1)[0].tolist() == [cue, 0], "a turn in the corridor changes nothing"
        for position in range(1, 13):
            state, reward, *ended, _ = maze.step(0)
            assert (state.tolist(), reward, ended) == ([0, position == 12], 0, [False, False]), "the cue is seen once"
        assert maze.step(0)[0].tolist() == [0, 1]
        turn = 2 if (cue > 0) == right else 1
        assert maze.step(turn)[1:4] == (float(right), True, False)
    assert cues == {-1, 1}


def test_the_maze_ends_without_a_turn() -> None:
    maze = open_environment("TMaze")
    maze.reset(seed=0)
    ends = [maze.step(1)[3] for _ in range(40)]
    assert ends == [False] * 39 + [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("CartPole-v1", 500),
        ("MountainCar-v0", -130),
        ("MountainCarContinuous-v0", 85),
        ("Pendulum-v1", -300),
        ("TMaze-40", 1),
    ],
)
def test_scripts_do_far_better_than_chance(name: str, least: float) -> None:
    assert record(name, "scripted", 20, 0).returns.mean() >= least > record(name, "random", 20, 0).returns.mean()


@pytest.mark.slow
def test_mixed_episodes_have_all_returns() -> None:
    returns = record("CartPole-v1", "mixed", 200, 0).returns
    counts, _ = np.histogram(returns, bins=5, range=(0, 500))
    assert (counts > 15).all()
    assert 0.1 < (returns == 500).mean() < 0.35, "a fifth and more follows the script to the end"


@pytest.mark.slow
def test_episodes_follow_from_their_name() -> None:
    first, again, other = (record("Pendulum-v1", "mixed", 3, seed) for seed in (0, 0, 1))
    assert first.identity == again.identity != other.identity
    assert (first.environment.continuous, first.environment.low, first.environment.high) == (True, (-2.0,), (2.0,))
    assert first.environment.limit == 200
    fewer = record("Pendulum-v1", "mixed", 2, 0)
    np.testing.assert_array_equal(fewer.actions, first.actions[:400])


def test_actions_are_scaled_to_the_bounds() -> None:
    environment = Environment(states=1, actions=2, continuous=True, low=(-2.0, 0.0), high=(2.0, 10.0))
    np.testing.assert_allclose(environment.scale_actions(np.array([[1.0, 5.0], [-2.0, 10.0]])), [[0.5, 0], [-1, 1]])
    np.testing.assert_allclose(environment.unscale_actions(np.array([[0.5, 0.0], [-1, 3.0]])), [[1, 5], [-2, 10]])


def test_they_are_stored_under_a_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "episodes:TMaze-10:random:4:7"
    first = read_episodes(name, cache=tmp_path)
    (path,) = (tmp_path / "episodes").iterdir()
    again = Episodes.open(path)
    assert again.identity == first.identity
    for field in ("states", "actions", "rewards", "starts"):
        np.testing.assert_array_equal(getattr(again, field), getattr(first, field))
    assert again.environment == first.environment
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="damaged: its content does not match its checksum"):
        Episodes.open(path)
    read_episodes(name.replace(":4:", ":3:"), cache=tmp_path)
    read_episodes(name.replace(":4:", ":2:"), cache=tmp_path)  # the process keeps two
    capsys.readouterr()
    assert read_episodes(name, cache=tmp_path).identity == first.identity
    assert "recording it again" in capsys.readouterr().err
    assert Episodes.open(path).identity == first.identity


def test_some_are_held_out() -> None:
    episodes = record("TMaze-10", "random", 40, 0)
    train, held = sides(episodes, 0.1, 0)
    assert (len(train), len(held)) == (36, 4)
    assert train.steps + held.steps == episodes.steps
    assert sides(episodes, 0.1, 0)[1].identity == held.identity != sides(episodes, 0.1, 1)[1].identity
    assert len(sides(episodes, 1e-6, 0)[1]) == 1
    with pytest.raises(ValueError, match="one episode cannot be divided"):
        sides(train.select(np.arange(36) == 0), 0.1, 0)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("episodes", "episodes are named episodes:ENV:POLICY"),
        ("episodes:CartPole-v1", "episodes are named episodes:ENV:POLICY"),
        ("episodes:CartPole-v1:random:many", "episodes are named episodes:ENV:POLICY"),
        ("episodes:CartPole-v1:random:0", "from 1 to 100,000 episodes can be recorded, not 0"),
        ("episodes:CartPole-v1:random:1:99999999999", "a seed must be a whole number"),
        ("episodes:CartPoel-v1:random:1", "unknown environment 'CartPoel-v1'; did you mean 'CartPole-v1'"),
        ("episodes:CartPole-v1:randm:1", "unknown policy 'randm'; did you mean 'random'"),
        (
            "episodes:Acrobot-v1:scripted:1",
            "there is no script for Acrobot-v1: choose the policy random, trained or replay, .* TMaze-LEN",
        ),
        ("episodes:TMaze-9:random:1", "a T-maze has a length of 10 to 100, not 9"),
        ("episodes:TMaze-long:random:1", "say TMaze-LENGTH, as TMaze-30"),
        ("episodes:FrozenLake-v1:random:1", "its states are Discrete.*only vectors of numbers can be read"),
    ],
)
def test_wrong_names(name: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=error) as caught:
        read_episodes(name, cache=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.fixture
def endless() -> Iterator[str]:
    """An environment whose episodes do not end."""
    space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    class Endless(gymnasium.Env):  # type: ignore[misc]  # a class of the extra
        observation_space = space
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 1.0, False, False, {}

    gymnasium.register("Endless-v0", Endless)
    yield "Endless-v0"
    del gymnasium.registry["Endless-v0"]


def test_an_episode_without_end(endless: str) -> None:
    with pytest.raises(ValueError, match="Endless-v0: an episode without end: it goes on after 10,000 steps"):
        record(endless, "random", 1, 0)


@pytest.mark.slow
def test_any_environment_with_vectors_can_be_played_at_random() -> None:
    episodes = record("Acrobot-v1", "random", 2, 0)
    assert (episodes.environment.states, episodes.environment.actions, episodes.steps) == (6, 3, 1000)


def test_the_script_of_the_maze_remembers() -> None:
    act = scripted_policy("TMaze-10")
    assert [act(np.array(state)) for state in ((-1.0, 0), (0, 0), (0, 1))] == [0, 0, 1]
    act = scripted_policy("TMaze-10")
    assert [act(np.array(state)) for state in ((1.0, 0), (0, 0), (0, 1))] == [0, 0, 2]


def test_random_actions_stay_in_their_bounds() -> None:
    environment = Environment(states=1, actions=2, continuous=True, low=(-2.0, 0.0), high=(2.0, 1.0))
    act = policy("random", environment, np.random.default_rng(0))
    drawn = np.stack([act(None) for _ in range(500)])
    assert (drawn.min(0) > [-2, 0]).all()
    assert (drawn.max(0) < [2, 1]).all()
    assert (drawn.std(0) > [1.0, 0.25]).all()


def test_they_are_no_text() -> None:
    with pytest.raises(ValueError, match="episodes are no text: a model of kind decision learns them"):
        read("episodes:CartPole-v1:random")


def test_data_of_episodes_as_a_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    name = "episodes:TMaze-20:scripted:5"
    assert command(["data", name]) == 0
    out = capsys.readouterr().out
    assert "actions to choose from" in out
    assert "mean return" in out
    assert command(["data", name, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["episodes"], row["steps"], row["mean_return"], row["longest_episode"]) == (5, 105, 1.0, 21)
    for option in (["--vocab", "300"], ["--tokenizer", "bytes"], ["--column", "words"]):
        assert command(["data", name, *option]) == 2
        assert f"episodes are not text: leave out {option[0]}" in capsys.readouterr().err


def test_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match=r"gymnasium is not installed: pip install 'seqloom\[agents\]'$"):
        record("CartPole-v1", "random", 1, 0)
