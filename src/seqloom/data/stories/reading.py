"""The derivation of a text: the choices that wrote it, read back from left to right over the same rules.

No option of a rule is a prefix of another (the tests prove it over the tables), so at each choice at most one option
fits the text, the first that fits is the only one, and nothing is ever taken back. A story therefore has exactly one
derivation, and p(text) = p(derivation). Scope: var → the options that it may still stand for; a missing var may stand
for any of its domain, and what the text repeats of it narrows them. In a whole story every var has one option.
"""

from collections.abc import Mapping, Sequence

from seqloom.data.stories.derivation import Choice, Derivation
from seqloom.data.stories.grammar import DOMAINS, RULES, Expand, Option, Recall, Symbol

Scope = Mapping[str, tuple[Option, ...]]


def _recall(symbol: Recall, text: str, at: int, scope: Scope) -> tuple[int, Scope] | None:
    candidates = scope.get(symbol.var, DOMAINS[symbol.var])
    for option in candidates:
        form = option.forms[symbol.form]
        if text.startswith(form, at):
            remaining = tuple(other for other in candidates if other.forms[symbol.form] == form)
            return at + len(form), scope if len(remaining) == len(candidates) else {**scope, symbol.var: remaining}
    return None


def _expand(symbol: Expand, text: str, at: int, scope: Scope, choices: list[Choice]) -> tuple[int, Scope] | None:
    rule = RULES[symbol.rule]
    mark = len(choices)
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
        del choices[mark:]
    return None


def read(
    symbols: Sequence[Symbol], text: str, at: int, scope: Scope, choices: list[Choice]
) -> tuple[int, Scope] | None:
    """Fit `symbols` to `text` from `at`: where they end and the scope then, or None; appends the choices made."""
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
    """The derivation of one whole story, or None where the text is no story of the grammar, to the last character."""
    choices: list[Choice] = []
    end = read((Expand("story", None, ""),), text, 0, {}, choices)
    return Derivation(text, tuple(choices)) if end is not None and end[0] == len(text) else None


def log_probability(text: str) -> float:
    """Natural logarithm of the exact probability of one whole story; ValueError where the text is none.

    Minus this, over the text's tokens, is a lower bound on achievable loss, in expectation: averaged over stories, no
    model's loss is below the entropy of the source. On one story a model's loss may be lower.
    """
    derivation = parse(text)
    if derivation is None:
        raise ValueError(f"not a story of the grammar, so it has no probability: {text[:60]!r}; pass one whole story")
    return derivation.log_probability
