"""The entropy of the grammar, and the probability that two stories are equal, both exact.

    H(rule) = Σ_o p_o (-log p_o + Σ_{s in o} H(s)),     C(rule) = Σ_o p_o² Π_{s in o} C(s)      o: options, s: choices

Both hold because choices are independent and a text has one derivation; a `Recall` is no choice, and adds nothing.
"""

import math
from functools import cache

from seqloom.data.stories.grammar import RULES, Expand


@cache
def entropy(rule: str = "story") -> float:
    """The entropy in nats of an expansion of `rule`, by default of a story: no model has a lower mean loss."""
    options = zip(RULES[rule].options, RULES[rule].probabilities, strict=True)
    return math.fsum(
        p * (math.fsum(entropy(symbol.rule) for symbol in option.symbols if isinstance(symbol, Expand)) - math.log(p))
        for option, p in options
    )


@cache
def repeat_probability(rule: str = "story") -> float:
    """The probability p that two independent expansions of `rule` are equal.

    N stories have about p n²/2 repetitions.
    """
    options = zip(RULES[rule].options, RULES[rule].probabilities, strict=True)
    return math.fsum(
        p * p * math.prod(repeat_probability(symbol.rule) for symbol in option.symbols if isinstance(symbol, Expand))
        for option, p in options
    )
