"""The grammar of the stories, built from the tables: its rules write stories, parse them and give their probabilities.

A rule is a list of options with weights. An option is a sequence of symbols: a `str` is literal text, an `Expand` a
choice among the options of a rule, a `Recall` the repetition of an option that was bound to a variable. There is no
recursion, so every story is finite; choices are independent, so probabilities multiply. And a text has one derivation,
so the entropy H of the grammar, and the probability C that two stories are equal, are both exact:

    H(rule) = Σ_o p_o (-log p_o + Σ_{s in o} H(s)),     C(rule) = Σ_o p_o² Π_{s in o} C(s)      o: options, s: choices

A `Recall` is no choice, and adds nothing.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import final

from seqloom.data.stories.tables import FORMS, PLOT, SENTENCES, WORDS

_SYMBOL = re.compile(r"<(?:(\w+)=)?(\w+)(?:\.(\w+))?>|\{(\w+)(?:\.(\w+))?\}")
_PLAIN = "plain"


@final
@dataclass(frozen=True, slots=True)
class Expand:
    """A choice among the options of `rule`; the option is bound to `var`, if given, for the rest of the story."""

    rule: str
    var: str | None
    form: str


@final
@dataclass(frozen=True, slots=True)
class Recall:
    """The text, in `form`, of the option that the story bound to `var`."""

    var: str
    form: str


Symbol = str | Expand | Recall


@final
@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One option of a rule: its symbols, its integer weight, and, for a word, its text in each form."""

    symbols: tuple[Symbol, ...]
    weight: int
    forms: Mapping[str, str]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Options in the order of the tables, their probabilities (sum 1) and running sums of their integer weights."""

    name: str
    options: tuple[Option, ...]
    probabilities: tuple[float, ...] = field(init=False)
    bounds: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        bounds = tuple(accumulate(option.weight for option in self.options))
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "probabilities", tuple(option.weight / bounds[-1] for option in self.options))


def _symbols(template: str) -> Iterator[Symbol]:
    """The symbols of an option as the tables write it."""
    end = 0
    for match in _SYMBOL.finditer(template):
        if match.start() > end:
            yield template[end : match.start()]
        bound, rule, form, var, recalled = match.groups()
        yield Expand(rule, bound, form or _PLAIN) if rule else Recall(var, recalled or _PLAIN)
        end = match.end()
    if end < len(template):
        yield template[end:]


def _forms(text: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The forms of a word: plain, with its article, the `extra` ones, and each of these with a capital letter."""
    article = "an" if text[0] in "aeiou" else "a"
    forms = {_PLAIN: text, "a": f"{article} {text}", **extra}
    return forms | {form.capitalize(): written[0].upper() + written[1:] for form, written in forms.items()}


def _rule(name: str, lines: list[str]) -> Rule:
    """A rule from the lines of its options, each WEIGHT TEMPLATE."""
    options = []
    for line in lines:
        weight, template = line.strip().split(" ", 1)
        symbols = tuple(_symbols(template))
        forms = _forms(template, FORMS.get(name, {})) if symbols == (template,) else {}
        options.append(Option(symbols, int(weight), forms))
    return Rule(name, tuple(options))


def _domains() -> dict[str, tuple[Option, ...]]:
    """For each variable, every option that some choice can bind to it."""
    bound: dict[str, dict[str, tuple[Option, ...]]] = {}
    for rule in RULES.values():
        for option in rule.options:
            for symbol in option.symbols:
                if isinstance(symbol, Expand) and symbol.var:
                    bound.setdefault(symbol.var, {})[symbol.rule] = RULES[symbol.rule].options
    return {var: tuple(option for options in rules.values() for option in options) for var, rules in bound.items()}


RULES: dict[str, Rule] = {
    **{name: _rule(name, lines.splitlines()) for name, lines in (PLOT | SENTENCES).items()},
    **{name: _rule(name, words.split(", ")) for name, words in WORDS.items()},
}
DOMAINS = _domains()
TEMPLATES = tuple((name, option) for name in SENTENCES for option in RULES[name].options)


@cache
def longest(rule: str = "story") -> int:
    """The largest number of choices in an expansion of `rule`, including that of its option."""
    return 1 + max(
        sum(longest(symbol.rule) for symbol in option.symbols if isinstance(symbol, Expand))
        for option in RULES[rule].options
    )


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
