"""A pytest plugin that measures each test and writes tests/long.txt: `make durations`.

CPU seconds of the process and of those that it started, which other work on the machine changes less than the clock.
The contract is not listed, whatever it takes: `make test` checks each promise for each mixer.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

LIMIT = 0.08
"""CPU seconds of a case, in the mean of a test's cases, from which it is left to `make test-long`"""
LIST = Path(__file__).with_name("long.txt")
HEADER = f"# Tests outside of the contract whose cases take {LIMIT} CPU seconds or more in the mean: make durations\n"

_seconds: dict[str, list[float]] = defaultdict(list)


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    start = _cpu_seconds()
    result = yield
    if not name_of(item).startswith("contract/"):
        _seconds[name_of(item)].append(_cpu_seconds() - start)
    return result


def pytest_sessionfinish(exitstatus: int) -> None:
    """Writes the list after a run without failures; the first case that needs a module's fixture pays for it."""
    if exitstatus != pytest.ExitCode.OK:
        return
    long = [test for test, seconds in _seconds.items() if sum(seconds) / len(seconds) >= LIMIT]
    LIST.write_text(HEADER + "".join(f"{test}\n" for test in sorted(long)))
