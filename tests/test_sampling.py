"""What is sampled by hash: as much as asked, and each backend with each of its forms."""

from typing import Any

import pytest

from tests.sampling import MET, Case, Met, never_run, pair, sample, slow_sample


@pytest.mark.slow
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
    kept = sample(cases, 6)
    assert {pairs[name] for name in kept} == {*pairs.values()}
    assert len(kept) in range(12, 18)
    assert kept == sample(reversed(cases), 6)
    assert len(sample(cases, 1)) == len(cases)
    assert len({name.split()[0] for name in kept}) > 4
    assert len(sample([Case(str(n), {}) for n in range(12)], 6)) == 2


class Item:
    """A slow case of a test, as far as sampling asks it; `share` is the argument of its marker."""

    def __init__(self, name: str, number: int, share: tuple[int, ...]) -> None:
        self.nodeid = f"a.py::{name}[{number}]"
        self.marker = pytest.mark.slow(*share).mark

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [self.marker] if name == "slow" else []

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marker if name == "slow" else None


def test_a_test_says_its_own_share() -> None:
    """Of 24 slow cases one in three; of a test marked `slow(12)` one in twelve."""
    items: list[Any] = [Item("thirds", n, ()) for n in range(24)]
    items += [Item("twelfths", n, (12,)) for n in range(24)]
    kept = slow_sample(items, 3)
    assert [sum(f"::{name}[" in each for each in kept) for name in ("thirds", "twelfths")] == [8, 2]
    assert len(slow_sample(items, 24)) == 2
