"""Each source file has its tests where their name says, and each file of tests has tests."""

from pathlib import Path

import pytest

from tests.layout import ELSEWHERE, TESTS, defined_tests, elsewhere, has_tests, places, sources


def test_every_source_file_has_its_tests() -> None:
    homeless = {str(source): str(places(source)[0]) for source in sources() if not has_tests(source)}
    missing = {source: place for source, place in homeless.items() if not elsewhere(source)}
    assert missing == {}, "write these files, or say in ELSEWHERE which test decides what the sources do"


def test_an_exception_is_a_source_without_tests_and_its_test_is_there() -> None:
    without = [source for source in sources() if not has_tests(source)]
    used = {pattern for source in without for pattern in elsewhere(source)}
    assert {pattern for group in ELSEWHERE.values() for pattern in group.split()} - used == set()
    assert [test for test in ELSEWHERE if not (TESTS / f"{test}.py").exists()] == []


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_file_of_tests_has_some(path: Path) -> None:
    assert defined_tests(path)
