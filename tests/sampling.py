"""Which cases run where, by hashes of their ids: every n-th case would always be of the same backend or form.

A test is for `make test`, or it is `slow`, a marker that is set by hand: a function's, a module's (`pytestmark`) or a
case's (`pytest.param(…, marks=pytest.mark.slow)`). Of a table marked `sample(n)` one case in n is for `make test`, and
the others are slow. `make test-long`, which CI runs too, takes of the slow cases of each test one in three
(`--one-in 3`), and one at least if none is for `make test`; `make test-all` takes all. `slow(n)` makes that
one in n, for cases of half a minute.
"""

from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import pytest

CI = 3
"""CI runs one slow case in so many"""
Form: TypeAlias = frozenset[tuple[str, Any]]
"""the parameters of a case that are no sizes, by name"""


class Case(NamedTuple):
    """A case of a test, as pytest collects it."""

    id: str
    parameters: dict[str, Any]


class Met(NamedTuple):
    """A backend with a form in a case of a test."""

    file: str
    """of the test"""
    backend: str
    form: Form
    runs: bool
    """in CI"""


MET = pytest.StashKey[list[Met]]()
"""where a run of pytest keeps those of all that it has collected"""


def pair(case: Case) -> tuple[str, Form] | None:
    """The backend of a case and its form: its other parameters, but for numbers. None for a test of no backends."""
    backend = case.parameters.get("backend")
    if not isinstance(backend, str):
        return None
    others = {name: value for name, value in case.parameters.items() if name != "backend"}
    form = ((name, value) for name, value in others.items() if isinstance(value, (str, bool)))
    return backend, frozenset(form)


def sample(cases: Iterable[Case], n: int, others: Iterable[Case] = ()) -> set[str]:
    """The ids of one case in n, and of more until each backend meets each of its forms, in these or in the others.

    Without others at least one.
    """
    others = list(others)
    order = sorted(cases, key=lambda case: sha256(case.id.encode()).digest())
    chosen = order[: len(order) // n if others else -(-len(order) // n)]
    result = {case.id for case in chosen}
    met = {pair(case) for case in (*others, *chosen)}
    for case in order:
        if pair(case) not in met:
            result.add(case.id)
            met.add(pair(case))
    return result


def mark_samples(items: Iterable[pytest.Item]) -> None:
    """Marks the cases of each `sample(n)` slow, but for one in n."""
    for cases in by_test(items).values():
        for n in {marker.args[0] for item in cases for marker in item.iter_markers("sample")}:
            kept = sample(map(case_of, cases), n)
            for item in cases:
                if item.nodeid not in kept:
                    item.add_marker(pytest.mark.slow)


def slow_sample(items: Iterable[pytest.Item], n: int) -> set[str]:
    """The ids of one slow case in n of each test, or in its own `slow(n)`; and of one at least where all are slow."""
    result = set()
    for cases in by_test(items).values():
        slow = [case_of(item) for item in cases if item.get_closest_marker("slow")]
        others = [case_of(item) for item in cases if not item.get_closest_marker("slow")]
        own = [share for item in cases for marker in item.iter_markers("slow") for share in marker.args]
        result |= sample(slow, max([n, *own]), others)
    return result


def met_in(items: Iterable[pytest.Item]) -> list[Met]:
    """Each backend with each form that the tests of ops have, and whether it runs in CI."""
    items = list(items)
    sampled = slow_sample(items, CI)
    found = [(item, pair(case_of(item))) for item in items if _file(item).startswith("ops/")]
    return [
        Met(_file(item), *both, item.nodeid in sampled or not item.get_closest_marker("slow"))
        for item, both in found
        if both
    ]


def never_run(met: Iterable[Met]) -> list[str]:
    """The pairs of a backend and a form that a file has tests of and that none of them in CI contains.

    The reference is left out: every test of another backend compares it.
    """
    met = [each for each in met if each.backend != "reference"]
    run = {each[:3] for each in met if each.runs}
    left = {each[:3] for each in met if not any(each[:2] == other[:2] and each.form <= other[2] for other in run)}
    return sorted(f"{file}: {backend} with {dict(sorted(form))}" for file, backend, form in left)


def by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each test, by its id without the values of its parameters."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    return tests


def case_of(item: pytest.Item) -> Case:
    return Case(item.nodeid, item.callspec.params if hasattr(item, "callspec") else {})


def _file(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("::")[0]
