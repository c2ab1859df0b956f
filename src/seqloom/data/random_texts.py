"""Random texts, examples and episodes, for timing: the time of a step does not depend on what is read.

They are the same in every process.
"""

import numpy as np

from seqloom.data.episodes import Environment, Episodes
from seqloom.data.tokens import Tokens, id_type

EXAMPLES = 64
"""texts with a label, pairs, or episodes"""


def random_text(context: int, vocab: int, tokens: int = 2**16) -> Tokens:
    """A text of `tokens` uniform random ids and one window more."""
    ids = np.random.default_rng(0).integers(vocab, size=tokens + context, dtype=id_type(vocab))
    return Tokens(ids, np.zeros(1, np.int64), np.full(1, len(ids)))


def random_examples(context: int, vocab: int, texts: int) -> Tokens:
    """Examples of `texts` random texts each, which fill the context and have one label."""
    length = (context - 1) // texts
    ids = np.random.default_rng(0).integers(1, max(vocab, 2), size=(EXAMPLES * texts, length), dtype=id_type(vocab))
    ids[:, -1] = 0  # each text ends with `<eos>`
    count = len(ids)
    starts = np.arange(count, dtype=np.int64) * length
    return Tokens(ids.reshape(-1), starts, np.full(count, length), np.zeros(count // texts, np.int64), texts)


def random_episodes(environment: Environment, steps: int) -> Episodes:
    """Episodes of `steps` random states and actions each."""
    draws = np.random.default_rng(0)
    count = EXAMPLES * steps
    actions = draws.integers(environment.actions, size=count)
    if environment.continuous:
        actions = draws.uniform(environment.low, environment.high, (count, environment.actions)).astype(np.float32)
    states = draws.standard_normal((count, environment.states)).astype(np.float32)
    return Episodes(states, actions, np.ones(count), np.arange(EXAMPLES, dtype=np.int64) * steps, environment)
