"""The table of what `make test` leaves out names tests that exist."""

import re
from pathlib import Path

from tests.quick import EVERY, LATER

TESTS = Path(__file__).parent


def test_every_test_that_is_left_out_is_there() -> None:
    for test in (*EVERY, *LATER):
        file, _, name = test.partition("::")
        defined = re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE)
        assert defined, f"{test} is not there any more: take it out of tests/quick.py"
