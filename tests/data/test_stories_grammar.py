"""A story has one derivation: in the tables of the grammar, no option writes a prefix of another."""

import math
from itertools import combinations

import pytest

from seqloom.data.stories.grammar import DOMAINS, RULES, TEMPLATES, Expand, Recall, Symbol
from seqloom.data.stories.tables import PLOT, SENTENCES


def heads(rest: tuple[Symbol, ...]) -> list[tuple[Symbol, ...]]:
    """Every way to write the first symbol of `rest` until it begins with letters."""
    if not rest or isinstance(rest[0], str):
        return [rest]
    first, after = rest[0], rest[1:]
    if isinstance(first, Recall):
        return [(form, *after) for form in {option.forms[first.form] for option in DOMAINS[first.var]}]
    return [
        head
        for option in RULES[first.rule].options
        for head in ([(option.forms[first.form], *after)] if option.forms else heads((*option.symbols, *after)))
    ]


def clash(left: tuple[Symbol, ...], right: tuple[Symbol, ...]) -> bool:
    """Whether some text of one is a prefix of some text of the other (every recall free: more texts than there are)."""
    pairs, seen = [(left, right)], set()
    while pairs:
        for a in heads((pair := pairs.pop())[0]):
            for b in heads(pair[1]):
                if not a or not b:
                    return True
                x, y = a[0], b[0]
                size = min(len(x), len(y))
                following = tuple((rest[0][size:], *rest[1:]) if rest[0][size:] else rest[1:] for rest in (a, b))
                if x[:size] == y[:size] and following not in seen:
                    seen.add(following)
                    pairs.append(following)
    return False


USES = sorted(
    {(s.rule, s.form) for rule in RULES.values() for o in rule.options for s in o.symbols if isinstance(s, Expand)}
)


def test_every_rule_but_the_first_is_used() -> None:
    assert {rule for rule, _ in USES} == RULES.keys() - {"story"}


@pytest.mark.parametrize(("rule", "form"), USES, ids="-".join)
def test_no_option_is_a_prefix_of_another(rule: str, form: str) -> None:
    written = [(o.forms[form],) if o.forms else o.symbols for o in RULES[rule].options]
    for left, right in combinations(written, 2):
        assert not clash(left, right), (left, right)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (("old",), ("older",), True),
        (("the ", Expand("bird", None, "plain")), ("the crow", " flew"), True),
        ((Recall("hero", "They"), " ran"), ("She", " ran home"), True),
        ((Recall("hero", "They"), " ran"), ("She", " walked"), False),
        (("Then a",), ("Then, on",), False),
    ],
)
def test_the_proof_finds_clashes(left: tuple[Symbol, ...], right: tuple[Symbol, ...], expected: bool) -> None:
    assert clash(left, right) is expected


def test_recalled_forms_tell_each_other_apart() -> None:
    recalls = {s for rule in RULES.values() for option in rule.options for s in option.symbols if isinstance(s, Recall)}
    for recall in recalls:
        forms = {option.forms[recall.form] for option in DOMAINS[recall.var]}
        assert not any(a.startswith(b) or b.startswith(a) for a, b in combinations(forms, 2)), recall


def test_nothing_is_recalled_before_it_is_bound() -> None:
    def after(symbols: tuple[Symbol, ...], bound: frozenset[str]) -> frozenset[str]:
        for symbol in symbols:
            if isinstance(symbol, Recall):
                assert symbol.var in bound, symbols
            elif isinstance(symbol, Expand):
                bound = frozenset.intersection(*(after(option.symbols, bound) for option in RULES[symbol.rule].options))
                bound |= {symbol.var} if symbol.var else frozenset()
        return bound

    assert after((Expand("story", None, ""),), frozenset()) >= {"hero", "elder", "thing", "friend", "food", "hiding"}


def test_probabilities_sum_to_one() -> None:
    for rule in RULES.values():
        assert math.fsum(rule.probabilities) == pytest.approx(1, abs=1e-15)
        assert all(option.weight > 0 for option in rule.options)


def test_the_tables_have_the_shape_that_reading_needs() -> None:
    assert len(TEMPLATES) == sum(len(RULES[name].options) for name in SENTENCES)
    for name in PLOT:  # sentences are joined by one space, so that splitting finds them again
        for option in RULES[name].options:
            assert all(symbol == " " or isinstance(symbol, Expand) for symbol in option.symbols)
    for name, option in TEMPLATES:
        assert str(option.symbols[-1]).endswith("."), name
