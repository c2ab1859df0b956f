"""A trained policy: a small recurrent network, found by the cross-entropy method from a seed.

    x_t = (s_t - center) / farthest                                   scales the numbers of a state to about -1 … 1
    h_t = tanh(x_t W + (1 + u) ∘ h_{t-1} + b),   h_0 = 0              8 units, which can remember the cue of a T-maze
    o_t = [h_t, x_t] A + c                                            the action is the largest o_t, or tanh(o_t)

    generation g of G: θ_1 … θ_P ~ N(μ_g, σ_g²) play the same n episodes; over the E of them with the best mean return
    μ_{g+1} = mean θ,    σ_{g+1}² = variance θ + Z (1 - (g + 1)/G)

The noise Z keeps σ from shrinking too soon. The search ends once μ reaches the return at which gymnasium calls the
environment solved (`reward_threshold`), measured in m further episodes, or after G generations. The policy `trained`
plays the μ with the best return in these. The policy `replay` draws a generation for each episode and plays one θ of
it, so that its episodes are like the replay buffer of an agent during its training.

Source: Szita and Lőrincz, Learning Tetris Using the Noisy Cross-Entropy Method, Neural Computation 18, 2006, whose
noise falls with the generations; replay: Fu et al., D4RL, arXiv:2004.07219 (medium-replay). What differs: their policy
is linear; here it is a network whose output layer also reads the state.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from seqloom.core.progress import progress
from seqloom.data.episodes.environment import Environment, open_environment

Array: TypeAlias = npt.NDArray[np.float64]
SEED = 0
"""the seed of the search, so that an environment has one trained policy"""
UNITS = 8
GENERATIONS = 40
"""G"""
POLICIES, BEST = 64, 10
"""P and E"""
EPISODES, TESTS = 4, 16
"""n and m"""
START, NOISE = 2.0, 0.1
"""σ_0 and Z"""
RANDOM = 20
"""random episodes from which the scale of the states is computed"""
LONGEST = 1000
"""the most steps of an episode of the search"""


@final
class Network:
    """P policies with weights (P, N) that each play one episode at the same time; with P = 1 it can be called."""

    def __init__(self, environment: Environment, weights: Array, center: Array, farthest: Array) -> None:
        self.environment, self.center, self.farthest = environment, center, farthest
        shapes = _shapes(environment)
        ends = np.cumsum([rows * columns for rows, columns in shapes])
        parts = np.split(weights, ends[:-1], axis=1)
        W, u, b, A, c = (part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True))
        self.W, self.A = W, A
        self.u = u[:, 0]
        self.b = b[:, 0]
        self.c = c[:, 0]
        self.h = np.zeros_like(self.b)

    def act(self, states: Any) -> Any:
        """The actions (P,) or (P, A) at the next states (P, S) of the episodes, as the environment takes them."""
        x = (states - self.center) / self.farthest
        xW = np.einsum("psh,ps->ph", self.W, x)
        self.h = np.tanh(xW + (1 + self.u) * self.h + self.b)
        o = np.einsum("pha,ph->pa", self.A, np.concatenate([self.h, x], 1)) + self.c
        return self.environment.unscale_actions(np.tanh(o)) if self.environment.continuous else o.argmax(1)

    def __call__(self, state: Any) -> Any:
        """The action at the next state of the episode, of a network with one policy."""
        action = self.act(np.asarray(state)[None])[0]
        return action if self.environment.continuous else int(action)


@final
@dataclass(frozen=True, eq=False)
class Search:
    """The policies of each generation of a search, and the best one."""

    environment: Environment
    centers: Array
    """(g, N), μ of each generation"""
    deviations: Array
    """(g, N), σ of each generation"""
    best: Array
    """(N,), the μ with the best return"""
    scale: tuple[Array, Array]
    """center and farthest (S,) of a state"""

    def best_policy(self) -> Network:
        """The best policy, for one episode."""
        return Network(self.environment, self.best[None], *self.scale)

    def drawn_policy(self, draws: np.random.Generator) -> Network:
        """A policy drawn from a drawn generation, for one episode."""
        generation = int(draws.integers(len(self.centers)))
        weights = draws.normal(self.centers[generation], self.deviations[generation])
        return Network(self.environment, weights[None], *self.scale)


@lru_cache(maxsize=8)
def search(environment: Environment, seed: int = SEED, generations: int = GENERATIONS) -> Search:
    """Searches for a policy; the result depends on the arguments alone. Raises as `open_environment` does."""
    draws = np.random.default_rng(seed)
    scale = _scale(environment, draws)
    size = sum(rows * columns for rows, columns in _shapes(environment))
    center, deviation = np.zeros(size), np.full(size, START)
    centers, deviations, test_returns = [center], [deviation], [-np.inf]
    episodes = [open_environment(environment.name) for _ in range(POLICIES * EPISODES)]
    solved_return = episodes[0].spec.reward_threshold

    def play(weights: Array, count: int) -> Array:
        """The mean return of each policy in `count` episodes, whose seeds are the same for all policies."""
        seeds = np.tile(draws.integers(2**31, size=count), len(weights))
        policies = Network(environment, np.repeat(weights, count, 0), *scale)
        return returns_of(policies, episodes[: len(seeds)], seeds).reshape(-1, count).mean(1)

    with progress(f"training a policy of {environment.name}", generations, "generations") as advance:
        for generation in range(1, generations + 1):
            weights = draws.normal(center, deviation, (POLICIES, size))
            elite = weights[np.argsort(-play(weights, EPISODES), kind="stable")[:BEST]]
            center = elite.mean(0)
            deviation = np.sqrt(elite.var(0) + NOISE * (1 - generation / generations))
            centers.append(center)
            deviations.append(deviation)
            test_returns.append(float(play(center[None], TESTS)[0]))
            advance(note=f"return {test_returns[-1]:.4g}")
            if solved_return is not None and test_returns[-1] >= solved_return:
                break
    for episode in episodes:
        episode.close()
    return Search(environment, np.stack(centers), np.stack(deviations), centers[int(np.argmax(test_returns))], scale)


def returns_of(policies: Network, episodes: list[Any], seeds: Any) -> Array:
    """The returns (P,) of the policies, policy p playing `episodes[p]` from `seeds[p]`."""
    states = np.stack([episode.reset(seed=int(seed))[0] for episode, seed in zip(episodes, seeds, strict=True)])
    returns, running = np.zeros(len(episodes)), list(range(len(episodes)))
    for _ in range(LONGEST):
        actions = policies.act(states)
        for number in tuple(running):
            action = actions[number] if policies.environment.continuous else int(actions[number])
            states[number], reward, terminated, truncated, _ = episodes[number].step(action)
            returns[number] += float(reward)
            if terminated or truncated:
                running.remove(number)
        if not running:
            break
    return returns


def _shapes(environment: Environment) -> list[tuple[int, int]]:
    """The shapes of W, u, b, A and c."""
    states, actions = environment.states, environment.actions
    return [(states, UNITS), (1, UNITS), (1, UNITS), (UNITS + states, actions), (1, actions)]


def _scale(environment: Environment, draws: np.random.Generator) -> tuple[Array, Array]:
    """The mean (S,) of the states of random episodes, and each number's largest distance from it (1 if that is 0)."""
    act, episode = environment.at_random(draws), open_environment(environment.name)
    states: list[Array] = []
    for _ in range(RANDOM):
        state, _ = episode.reset(seed=int(draws.integers(2**31)))
        for _ in range(LONGEST):
            states.append(np.asarray(state, np.float64))
            state, _, terminated, truncated, _ = episode.step(act(state))
            if terminated or truncated:
                break
    episode.close()
    center = np.mean(states, 0)
    farthest = np.abs(np.stack(states) - center).max(0)
    return center, np.where(farthest > 0, farthest, 1.0)
