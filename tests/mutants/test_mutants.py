"""The faults are introduced where the runner says, and all code of the plan has tests."""

import ast

import pytest

from tests.mutants.equivalent import PROVED
from tests.mutants.operators import places, planted
from tests.mutants.plan import GROUPS, ROOT

SOURCE = '''
def f(x: Literal[1], n: int = 2) -> Tuple[3]:
    """Says 4."""
    if x < n and n:
        g(x)
    assert x == 5
    if not x:
        raise ValueError(6 - x)
    return x - n if n else None
'''
EXPECTED = {
    "n: int=3": "one more",
    "n: int=1": "one less",
    "if x <= n and n:": "comparison",
    "if x < n or n:": "and, or",
    "if not (x < n and n):": "condition",
    "pass": "call",
    "if not not x:": "condition",
    "return None": "return",
    "return x - n if not n else None": "condition",
    "return x + n if n else None": "operator",
    "return n - x if n else None": "swapped",
}


def test_each_fault_once_and_none_where_it_changes_nothing() -> None:
    result = {place: planted(SOURCE, place) for place in places(SOURCE)}
    assert sorted(place.fault for place in result) == sorted(EXPECTED.values())
    for piece, fault in EXPECTED.items():
        assert sum(piece in text and place.fault == fault for place, text in result.items()) == 1, piece


def test_a_fault_changes_one_node() -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for place in places(SOURCE):
        text = planted(SOURCE, place).splitlines()
        assert len(text) == len(whole)
        assert sum(a != b for a, b in zip(text, whole, strict=True)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_decisive_file_has_tests(group) -> None:
    shared = {argument for argument in group.tests if "{" not in argument}
    for source in group.sources():
        result = [argument for argument in group.arguments(source) if not argument.startswith("-")]
        assert all((ROOT / argument).exists() for argument in result)
        if "{package}" in " ".join(group.tests):
            assert set(result) - shared, f"{source} has only the tests that all ops share"
        assert result, source


@pytest.mark.slow
def test_what_is_proved_to_change_nothing_is_still_there() -> None:
    drawn = {
        f"{source.relative_to(ROOT)}: {place.text}: {place.before} → {place.after}"
        for source in {ROOT / key.partition(": ")[0] for key in PROVED}
        for place in places(source.read_text(encoding="utf-8"))
    }
    assert PROVED.keys() <= drawn
