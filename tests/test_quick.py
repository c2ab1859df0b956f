"""The lists of what `make test` leaves out name tests that exist."""

import re
from pathlib import Path

import pytest

from tests import durations
from tests.quick import EVERY, LATER, MET, Case, Met, never_run, pair, sampled

TESTS = Path(__file__).parent


def test_every_test_that_is_left_out_is_there() -> None:
    for test in (*EVERY, *LATER, *durations.listed()):
        file, _, name = test.partition("::")
        path = TESTS / file
        defined = path.exists() and re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
        assert defined, f"{test} is not there any more: take it out of tests/quick.py or tests/long.txt"


def test_no_promise_of_a_mixer_is_left_to_later() -> None:
    assert not [test for test in durations.listed() if test.startswith("contract/")]


def test_no_backend_is_left_without_one_of_its_forms(request: pytest.FixtureRequest) -> None:
    """In whatever is collected: a whole run, or the tests of one op."""
    assert never_run(request.config.stash[MET]) == []


def test_a_pair_that_never_runs_is_found() -> None:
    met = [
        Met("a.py", "native", frozenset({("decay", "head")}), False),
        Met("a.py", "native", frozenset({("decay", "head"), ("write", True)}), True),
        Met("a.py", "native", frozenset({("decay", "none")}), False),
        Met("b.py", "native", frozenset({("decay", "none")}), True),
        Met("a.py", "reference", frozenset({("decay", "none")}), False),
    ]
    assert never_run(met) == ["a.py: native with {'decay': 'none'}"]


def test_one_in_n_of_each_backend_and_form() -> None:
    """A period that divides n, which every n-th case never left."""
    cases = [
        Case(f"a.py::test[{T} {decay} {backend}]", {"T": T, "decay": decay, "backend": backend})
        for T in range(12)
        for decay in ("none", "head", "channel")
        for backend in ("chunked", "native")
    ]
    pairs = {case.id: pair(case) for case in cases}
    kept = sampled(cases, 6)
    assert {pairs[name] for name in kept} == {*pairs.values()}
    assert len(kept) in range(12, 18)
    assert kept == sampled(reversed(cases), 6)
    assert len(sampled(cases, 1)) == len(cases)
    assert len({name.split()[0] for name in kept}) > 4
    assert len(sampled([Case(str(n), {}) for n in range(12)], 6)) == 2
