"""Parses a story: finds the choices that produced it, from left to right, by the same rules.

No option of a rule is a prefix of another one (a test checks all pairs), so at each choice at most one option fits the
text, and no backtracking is needed. A story therefore has exactly one derivation, and p(text) = p(derivation). A scope
maps a variable to the options that it may still have; a variable that is missing may have any option of its domain, and
repetitions in the text narrow them down. In a complete story every variable has one option.
"""

from collections.abc import Mapping, Sequence

from seqloom.data.stories.derivation import Choice, Derivation
from seqloom.data.stories.grammar import DOMAINS, RULES, Expand, Option, Recall, Symbol

Scope = Mapping[str, tuple[Option, ...]]


def _recall(symbol: Recall, text: str, at: int, scope: Scope) -> tuple[int, Scope] | None:
    """Matches a repetition with `text` from index `at`: the end index and the narrowed scope, or None."""
    candidates = scope.get(symbol.var, DOMAINS[symbol.var])
    for option in candidates:
        form = option.forms[symbol.form]
        if text.startswith(form, at):
            remaining = tuple(other for other in candidates if other.forms[symbol.form] == form)
            return at + len(form), scope if len(remaining) == len(candidates) else {**scope, symbol.var: remaining}
    return None


def _expand(symbol: Expand, text: str, at: int, scope: Scope, choices: list[Choice]) -> tuple[int, Scope] | None:
    """Matches one option of a rule with `text` from index `at`, as `read` does for symbols."""
    rule = RULES[symbol.rule]
    choices_before = len(choices)
    for index, option in enumerate(rule.options):
        if option.forms:
            form = option.forms[symbol.form]
            if not text.startswith(form, at):
                continue
            choices.append(Choice(rule.name, index, rule.probabilities[index]))
            return at + len(form), {**scope, symbol.var: (option,)} if symbol.var else scope
        choices.append(Choice(rule.name, index, rule.probabilities[index]))
        end = read(option.symbols, text, at, scope, choices)
        if end is not None:
            return end
        del choices[choices_before:]
    return None


def read(
    symbols: Sequence[Symbol], text: str, at: int, scope: Scope, choices: list[Choice]
) -> tuple[int, Scope] | None:
    """Matches `symbols` with `text` from index `at`: the end index and the scope there, or None.

    Appends to `choices`.
    """
    for symbol in symbols:
        if isinstance(symbol, str):
            end = (at + len(symbol), scope) if text.startswith(symbol, at) else None
        elif isinstance(symbol, Recall):
            end = _recall(symbol, text, at, scope)
        else:
            end = _expand(symbol, text, at, scope, choices)
        if end is None:
            return None
        at, scope = end
    return at, scope


def parse(text: str) -> Derivation | None:
    """The derivation of one complete story, or None where the text is not exactly a story of the grammar."""
    choices: list[Choice] = []
    end = read((Expand("story", None, ""),), text, 0, {}, choices)
    return Derivation(text, tuple(choices)) if end is not None and end[0] == len(text) else None


def log_probability(text: str) -> float:
    """Natural logarithm of the exact probability of one complete story; ValueError where the text is not a story.

    Averaged over stories, minus this divided by the number of tokens is the lowest loss that a model can have: the
    entropy of the source. On a single story a model's loss may be lower.
    """
    derivation = parse(text)
    if derivation is None:
        raise ValueError(f"not a story of the grammar, so it has no probability: {text[:60]!r}; pass one whole story")
    return derivation.log_probability
