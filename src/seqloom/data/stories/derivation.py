"""Draws stories from the grammar: story n of stream s depends on s and n alone, on every machine and Python version.

    u_1, u_2, … = 64-bit words of SHAKE-256("stories/s/n")
    choice i takes the option in whose interval of the running sums of integer weights u_i · total weight / 2^64 falls
    p(story) = product of the probabilities of its choices

Nothing else is random. There are more words u than any derivation has choices.
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
    """The choice of option number `option` of `rule`, with its probability."""

    rule: str
    option: int
    probability: float


@final
@dataclass(frozen=True)
class Derivation:
    """A story's text and the choices that produced it, in the order of the text."""

    text: str
    choices: tuple[Choice, ...]

    @property
    def log_probability(self) -> float:
        """Natural logarithm of the probability of the text, which only these choices produce."""
        return math.fsum(math.log(choice.probability) for choice in self.choices)


def _write(
    symbols: Sequence[Symbol], draws: Iterator[int], scope: dict[str, Option], text: list[str], choices: list[Choice]
) -> None:
    """Writes symbols: appends to `text` and `choices`, and adds to `scope` the options that variables are bound to."""
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
    """Story `number`, from 0, of stream `seed`, with its choices.

    ValueError for a negative number or an invalid seed.
    """
    require_seed(seed)
    if number < 0:
        raise ValueError(f"a story's number counts from 0, got {number}")
    draws = iter(_WORDS.unpack(shake_256(f"stories/{seed}/{number}".encode()).digest(_WORDS.size)))
    text: list[str] = []
    choices: list[Choice] = []
    _write((Expand("story", None, ""),), draws, {}, text, choices)
    return Derivation("".join(text), tuple(choices))


def story(seed: int, number: int) -> str:
    """The text of story `number`, from 0, of stream `seed`: one paragraph without line breaks or outer spaces."""
    return derive(seed, number).text


def corpus(count: int, seed: int) -> Iterator[str]:
    """The first `count` stories of stream `seed`; ValueError for a negative count or an invalid seed."""
    require_seed(seed)
    if count < 0:
        raise ValueError(f"the number of stories must not be negative, got {count}")
    return (story(seed, number) for number in range(count))
