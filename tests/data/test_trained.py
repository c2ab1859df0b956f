"""Trained policies: the network by hand, a repeatable search, policies that do far better than chance."""

import numpy as np
import pytest

from seqloom.data.episodes import Environment, describe_environment, open_environment
from seqloom.data.episodes.recording import record
from seqloom.data.episodes.trained import UNITS, Network, search

pytest.importorskip("gymnasium")
DISCRETE = Environment(name="few", states=2, actions=3)
VECTOR = Environment(name="vector", states=2, actions=1, continuous=True, low=(-2.0,), high=(2.0,))


@pytest.mark.parametrize("environment", [DISCRETE, VECTOR], ids=lambda each: each.name)
def test_the_network_by_hand(environment: Environment) -> None:
    actions = environment.actions
    draws = np.random.default_rng(0)
    read, keep, start = draws.normal(size=(2, UNITS)), draws.normal(size=UNITS), draws.normal(size=UNITS)
    out, rest = draws.normal(size=(UNITS + 2, actions)), draws.normal(size=actions)
    weights = np.concatenate([part.ravel() for part in (read, keep, start, out, rest)])[None]
    center, farthest = np.array([1.0, -1.0]), np.array([2.0, 0.5])
    network = Network(environment, weights, center, farthest)
    hidden = np.zeros(UNITS)
    for state in draws.normal(size=(4, 2)):
        x = (state - center) / farthest
        hidden = np.tanh(x @ read + (1 + keep) * hidden + start)
        wanted = np.concatenate([hidden, x]) @ out + rest
        action = network(state)
        if environment.continuous:
            np.testing.assert_allclose(action, 2 * np.tanh(wanted), rtol=1e-6)
        else:
            assert action == wanted.argmax()


def test_policies_act_side_by_side_as_each_alone() -> None:
    draws = np.random.default_rng(1)
    size = 2 * UNITS + UNITS + UNITS + (UNITS + 2) * 3 + 3
    weights, states = draws.normal(size=(3, size)), draws.normal(size=(5, 3, 2))
    scale = (np.zeros(2), np.ones(2))
    together, alone = Network(DISCRETE, weights, *scale), [Network(DISCRETE, row[None], *scale) for row in weights]
    for step in states:
        assert together.act(step).tolist() == [each(state) for each, state in zip(alone, step, strict=True)]


@pytest.mark.slow
def test_a_search_follows_from_its_seed() -> None:
    maze = describe_environment("TMaze-10", open_environment("TMaze-10"))
    first = search(maze, 3, 2)
    search.cache_clear()
    again, other = search(maze, 3, 2), search(maze, 4, 2)
    np.testing.assert_array_equal(first.best, again.best)
    np.testing.assert_array_equal(first.centers, again.centers)
    assert not np.array_equal(first.best, other.best)
    assert first.centers.shape == first.deviations.shape == (3, len(first.best))


@pytest.mark.slow
def test_the_trained_policy_of_the_maze_remembers_the_cue() -> None:
    trained, replay, chance = (record("TMaze-10", by, 40, 5) for by in ("trained", "replay", "random"))
    assert trained.returns.min() == 1 > chance.returns.mean()
    assert 0 < replay.returns.mean() < 1
    assert record("TMaze-10", "trained", 40, 5).identity == trained.identity


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [("CartPole-v1", 450), ("MountainCar-v0", -120), ("MountainCarContinuous-v0", 85), ("TMaze-60", 1)],
)
def test_trained_policies_do_far_better_than_chance(name: str, least: float) -> None:
    assert record(name, "trained", 20, 0).returns.mean() >= least > record(name, "random", 20, 0).returns.mean()


@pytest.mark.slow
def test_the_pendulum_is_swung_higher_than_by_chance() -> None:
    chance = record("Pendulum-v1", "random", 20, 0).returns.mean()
    assert record("Pendulum-v1", "trained", 20, 0).returns.mean() > chance + 150
