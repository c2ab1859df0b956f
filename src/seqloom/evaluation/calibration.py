"""Learn then Test: the lowest threshold of exits at which texts differ little enough, with a given probability.

    L_i(λ) = share of the tokens of text i whose likeliest next token is another one with exits at λ
    p_j = e^{-2 n max(0, δ - mean_i L_i(λ_j))²}                n texts; Hoeffding's bound, for L between 0 and 1
    λ_1 > λ_2 > …,   chosen: the last λ_j before the first p_j > ε

Then P(E[L(chosen)] ≤ δ) ≥ 1 - ε over the draw of the texts, if texts are independent. As λ_1, λ_2, … are tested in a
fixed order and the test stops at the first that fails, no further correction is needed.

Source: Angelopoulos et al., Learn then Test, arXiv:2110.01052, Algorithm 1 (fixed sequence testing); CALM,
arXiv:2207.07061, section 4. Texts are read, not written, and compared token by token: the paper compares whole outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Float

from seqloom.core.arguments import count
from seqloom.core.config import read
from seqloom.core.model import Model, require_streams
from seqloom.core.progress import Show, progress
from seqloom.core.rest import Rest
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import require_tokens
from seqloom.generation.exits import Exiting, Exits, Measure, read_on, require_exits


@final
@dataclass(frozen=True)
class Calibrated:
    """The results of the texts for each threshold, from the highest on."""

    thresholds: tuple[float, ...]
    losses: tuple[float, ...]
    """mean shares of tokens that differ"""
    depths: tuple[float, ...]
    """layers per token"""
    p: tuple[float, ...]
    chosen: float | None
    """the lowest that is valid; None where not even the highest is"""
    texts: int


def calibrate(
    model: Model,
    tokens: Tokens,
    *,
    thresholds: Sequence[float],
    delta: float,
    epsilon: float,
    by: Measure = "softmax",
    longest: int = 64,
    show: Show = progress,
) -> Calibrated:
    """Reads each document up to `longest` tokens with all layers and with exits at each threshold.

    ValueError for δ or ε outside (0, 1), thresholds that do not fall, and a model that does not stream.
    """
    require_streams(model, "read a text on")
    require_tokens(tokens, model.config.vocab)
    count("longest", longest, least=2)
    for name, value in (("delta", delta), ("epsilon", epsilon)):
        if not 0 < value < 1:
            raise ValueError(f"{name} lies between 0 and 1, and is {value}")
    if not thresholds or any(higher <= lower for higher, lower in pairwise(thresholds)):
        raise ValueError("thresholds are tested from the highest on: give at least one, each lower than the one before")
    for threshold in thresholds:
        require_exits(read(Exits, {"threshold": threshold, "by": by}), model)
    longest_text = min(longest, model.traits.longest or longest)
    losses = np.zeros((tokens.documents, len(thresholds)))
    layers = np.zeros(len(thresholds))
    tokens_read = 0
    with Rest(model), show("reading", tokens.documents, "texts") as advance:
        for number, (start, end) in enumerate(zip(tokens.starts, tokens.ends, strict=True)):
            ids = tokens.ids[start : min(end, start + longest_text - 1)].astype(np.int64).tolist()
            _, full_likeliest = read_on(model, partial(model.step, reuse=True), [tokens.eos], ids)
            for column, threshold in enumerate(thresholds):
                exiting = Exiting(model, Exits(threshold=threshold, by=by, most=longest))
                _, likeliest = read_on(model, exiting.step, [tokens.eos], ids)
                losses[number, column] = np.mean(np.not_equal(likeliest, full_likeliest))
                layers[column] += exiting.layers
            tokens_read += len(ids)
            advance()
    p = p_values(losses, delta)
    valid = count_rejected(p, epsilon)
    return Calibrated(
        thresholds=tuple(thresholds),
        losses=_floats(losses.mean(0)),
        depths=_floats(layers / tokens_read),
        p=_floats(p),
        chosen=thresholds[valid - 1] if valid else None,
        texts=tokens.documents,
    )


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(map(float, values))


def p_values(losses: Float[np.ndarray, "n m"], delta: float) -> Float[np.ndarray, " m"]:
    """The p-values of the hypotheses that the expected loss is above δ, from losses of n texts at m thresholds."""
    return np.exp(-2 * len(losses) * np.maximum(0.0, delta - losses.mean(0)) ** 2)


def count_rejected(p: Float[np.ndarray, " m"], epsilon: float) -> int:
    """How many hypotheses are rejected in order before the first that is not."""
    failed = np.flatnonzero(p > epsilon)
    return int(failed[0]) if len(failed) else len(p)
