"""A pytest plugin that measures each test and writes tests/long.txt: `make durations`.

    cost of a test = mean over its cases of: seconds of the case + Σ seconds of a shared fixture / cases that use it

Seconds are CPU seconds of the process and of those that it started, which other work on the machine changes less than
the clock. A shared fixture is one of a module, package or session. The contract is not listed, whatever it takes: `make
test` checks each promise for each mixer.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LIMIT = 0.05
"""CPU seconds of a case, in the mean of a test's cases, from which it is left to `make test-long`"""
LIST = Path(__file__).with_name("long.txt")
HEADER = f"# Tests outside of the contract whose cases take {LIMIT} CPU seconds or more in the mean: make durations\n"

_cases: dict[str, list[tuple[float, tuple[pytest.FixtureDef[Any], ...]]]] = defaultdict(list)
"""by test: the seconds of each case without its shared fixtures, and these"""
_fixtures: dict[pytest.FixtureDef[Any], float] = defaultdict(float)
"""seconds of all setups of a shared fixture"""


def listed() -> frozenset[str]:
    """The tests of tests/long.txt, each as its file under tests/ and its name: `cli/test_arpa.py::test_a_mistake`."""
    lines = LIST.read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def name_of(item: pytest.Item) -> str:
    """A test's file under tests/ and its name, without the values of its parameters."""
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    start = _cpu_seconds()
    value = yield
    if fixturedef.scope != "function":
        _fixtures[fixturedef] += _cpu_seconds() - start
    return value


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Function) -> Generator[None, object, object]:
    start, shared_start = _cpu_seconds(), sum(_fixtures.values())
    result = yield
    own = _cpu_seconds() - start - (sum(_fixtures.values()) - shared_start)
    used = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    _cases[name_of(item)].append((own, tuple(fixture for fixture in used if fixture.scope != "function")))
    return result


def costs() -> dict[str, float]:
    """The cost of each test in CPU seconds."""
    users = Counter(fixture for cases in _cases.values() for _, used in cases for fixture in used)
    each = {fixture: seconds / users[fixture] for fixture, seconds in _fixtures.items() if users[fixture]}
    return {
        test: sum(own + sum(each.get(fixture, 0.0) for fixture in used) for own, used in cases) / len(cases)
        for test, cases in _cases.items()
    }


def pytest_sessionfinish(exitstatus: int) -> None:
    """Writes the list after a run without failures."""
    if exitstatus != pytest.ExitCode.OK:
        return
    long = [test for test, cost in costs().items() if cost >= LIMIT and not test.startswith("contract/")]
    LIST.write_text(HEADER + "".join(f"{test}\n" for test in sorted(long)))
