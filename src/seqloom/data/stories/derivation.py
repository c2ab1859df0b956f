"""Stories drawn from the grammar: number n of stream s is a pure function of s and n, on every machine and Python.

    u_1, u_2, … = 64-bit words of SHAKE-256("stories/s/n"),   choice i takes the option where u_i · total weight / 2^64
    falls among the running sums of the integer weights; the probability of a story is the product over its choices.

Nothing else is random. The words cover more choices than any derivation has, so no stream runs out.
"""

import math
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import shake_256
from typing import NamedTuple, final

from seqloom.core.seeds import require_seed
from seqloom.data.stories.grammar import RULES, Expand, Option, Recall, Symbol, longest

_WORDS = struct.Struct(f">{longest()}Q")


class Choice(NamedTuple):
    """Option number `option` of `rule`, which has this probability among the rule's options."""

    rule: str
    option: int
    probability: float


@final
@dataclass(frozen=True)
class Derivation:
    """A story's text and the choices that wrote it, in the order of the text."""

    text: str
    choices: tuple[Choice, ...]

    @property
    def log_probability(self) -> float:
        """Natural logarithm of the probability of the choices, which is that of the text: it has no other choices."""
        return math.fsum(math.log(choice.probability) for choice in self.choices)


def _write(
    symbols: Sequence[Symbol], draws: Iterator[int], scope: dict[str, Option], text: list[str], choices: list[Choice]
) -> None:
    for symbol in symbols:
        if isinstance(symbol, str):
            text.append(symbol)
        elif isinstance(symbol, Recall):
            text.append(scope[symbol.var].forms[symbol.form])
        else:
            rule = RULES[symbol.rule]
            index = bisect_right(rule.bounds, next(draws) * rule.bounds[-1] >> 64)
            option = rule.options[index]
            choices.append(Choice(rule.name, index, rule.probabilities[index]))
            if option.forms:
                text.append(option.forms[symbol.form])
            else:
                _write(option.symbols, draws, scope, text, choices)
            if symbol.var:
                scope[symbol.var] = option


def derive(seed: int, number: int) -> Derivation:
    """Story `number` (from 0) of stream `seed`, with its choices; ValueError for a negative number and no seed."""
    require_seed(seed)
    if number < 0:
        raise ValueError(f"a story's number counts from 0, got {number}")
    draws = iter(_WORDS.unpack(shake_256(f"stories/{seed}/{number}".encode()).digest(_WORDS.size)))
    text: list[str] = []
    choices: list[Choice] = []
    _write((Expand("story", None, ""),), draws, {}, text, choices)
    return Derivation("".join(text), tuple(choices))


def story(seed: int, number: int) -> str:
    """The text of story `number` (from 0) of stream `seed`: one paragraph, no line break, no space around it."""
    return derive(seed, number).text


def corpus(count: int, seed: int) -> Iterator[str]:
    """The first `count` stories of stream `seed`; ValueError for a negative count and no seed."""
    require_seed(seed)
    if count < 0:
        raise ValueError(f"the number of stories must not be negative, got {count}")
    return (story(seed, number) for number in range(count))
