"""The lists of what `make test` leaves out name tests that exist."""

import re
from pathlib import Path

from tests import durations
from tests.quick import EVERY, LATER

TESTS = Path(__file__).parent


def test_every_test_that_is_left_out_is_there() -> None:
    for test in (*EVERY, *LATER, *durations.listed()):
        file, _, name = test.partition("::")
        path = TESTS / file
        defined = path.exists() and re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)
        assert defined, f"{test} is not there any more: take it out of tests/quick.py or tests/long.txt"


def test_no_promise_of_a_mixer_is_left_to_later() -> None:
    assert not [test for test in durations.listed() if test.startswith("contract/")]
