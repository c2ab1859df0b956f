"""The policies that episodes are recorded with: they choose an action, given the states of the episode so far.

random       uniform actions
scripted     a rule for the environment (below), which reads the last state; in the T-maze it remembers the first cue
mixed        as scripted for a number of steps drawn uniformly from 0 to 5/4 of the limit, then as random: episodes
             with all returns, from which a model can learn to reach the return that it is asked for
trained      a network that a search from a seed finds (module `trained`)
replay       for each episode, one of the policies that this search has tried
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from seqloom.core.config import suggestion
from seqloom.data.episodes.environment import MAZE, Environment
from seqloom.data.episodes.t_maze import FORWARD
from seqloom.data.episodes.trained import search

Act: TypeAlias = Callable[[Any], Any]
"""maps a state to an action; it may remember the states of one episode"""
POLICIES = ("random", "scripted", "mixed", "trained", "replay")
UNBOUNDED = 1000
"""the limit that a mixed policy assumes, in steps, where the environment has none"""


def policy(name: str, environment: Environment, draws: np.random.Generator) -> Act:
    """The policy of this name, for one episode. ValueError for an unknown name, or an environment without a script."""
    if name == "random":
        return environment.at_random(draws)
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name[:100]!r}; {suggestion(name, POLICIES)}")
    if name == "trained":
        return search(environment).best_policy()
    if name == "replay":
        return search(environment).drawn_policy(draws)
    script = scripted_policy(environment.name)
    if name == "scripted":
        return script
    return then_random(script, environment.at_random(draws), environment.limit or UNBOUNDED, draws)


def then_random(script: Act, random_policy: Act, limit: int, draws: np.random.Generator) -> Act:
    """Follows `script` for a drawn number of steps, and `wild` after them."""
    steps_left = int(draws.integers(5 * limit // 4 + 1))

    def act(state: Any) -> Any:
        nonlocal steps_left
        steps_left -= 1
        return script(state) if steps_left >= 0 else random_policy(state)

    return act


def scripted_policy(name: str) -> Act:
    """The scripted policy of an environment. ValueError where there is none."""
    if name.partition("-")[0] == MAZE:
        return through_the_maze()
    if name not in SCRIPTS:
        raise ValueError(
            f"there is no script for {name[:100]}: choose the policy random, trained or replay, or an environment with "
            f"a script: {', '.join(SCRIPTS)} or {MAZE}-LENGTH"
        )
    return SCRIPTS[name]


def through_the_maze() -> Act:
    """Remembers the cue of the first state, walks to the junction, and turns by the cue."""
    cue = 0.0

    def act(state: Any) -> int:
        nonlocal cue
        cue = float(state[0]) or cue
        if not state[1]:
            return FORWARD
        return 1 if cue < 0 else 2

    return act


def balance(state: Any) -> int:
    """Pushes the cart to the side that the pole falls to; the cart's own position and speed bring it to the middle."""
    position, speed, angle, turning = (float(number) for number in state)
    return int(angle + 0.3 * turning + 0.02 * position + 0.06 * speed > 0)


def swing(state: Any) -> int:
    """Pushes the car in the direction that it rolls, so that each swing is higher than the one before."""
    return 2 if float(state[1]) >= 0 else 0


def swing_hard(state: Any) -> Any:
    """As `swing`, for continuous actions: with the full force."""
    return np.array([1.0 if float(state[1]) >= 0 else -1.0], np.float32)


def swing_up(state: Any) -> Any:
    """Brings the pendulum to the energy of its upper rest, and holds it there.

    With cos, sin and the rate ω of the angle from the upper rest, and g = 10, l = m = 1, the energy is
    ω²/6 + 5 (cos - 1), 0 at the upper rest; a torque of the sign of ω adds to it.
    """
    cosine, sine, rate = (float(number) for number in state)
    angle = math.atan2(sine, cosine)
    if cosine > 0.9:
        return np.array([np.clip(-12 * angle - 3 * rate, -2, 2)], np.float32)
    energy = rate * rate / 6 + 5 * (cosine - 1)
    return np.array([2.0 if (energy < 0) == (rate >= 0) else -2.0], np.float32)


SCRIPTS: dict[str, Act] = {
    "CartPole-v1": balance,
    "MountainCar-v0": swing,
    "MountainCarContinuous-v0": swing_hard,
    "Pendulum-v1": swing_up,
}
