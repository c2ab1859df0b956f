"""How many stories there are: the entropy of the grammar and the odds that two stories are equal, both exact.

    H(rule) = Σ_o p_o (-log p_o + Σ_{s in o} H(s)),     C(rule) = Σ_o p_o² Π_{s in o} C(s);     repetitions add nothing

Both hold because the choices are independent and a text has one derivation.
"""

import math
from functools import cache

from seqloom.data.stories.grammar import RULES, Expand


@cache
def entropy(rule: str = "story") -> float:
    """Nats of one expansion of `rule`; without argument, of a story: the mean of -log p, which no model undercuts."""
    options = zip(RULES[rule].options, RULES[rule].probabilities, strict=True)
    return math.fsum(
        p * (math.fsum(entropy(symbol.rule) for symbol in option.symbols if isinstance(symbol, Expand)) - math.log(p))
        for option, p in options
    )


@cache
def repeat_probability(rule: str = "story") -> float:
    """Probability that two independent expansions of `rule` are equal; n stories hold about n²/2 times it repeats."""
    options = zip(RULES[rule].options, RULES[rule].probabilities, strict=True)
    return math.fsum(
        p * p * math.prod(repeat_probability(symbol.rule) for symbol in option.symbols if isinstance(symbol, Expand))
        for option, p in options
    )
