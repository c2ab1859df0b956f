"""The table of what `make test` leaves out names tests that exist."""

import ast
from pathlib import Path

from tests.quick import EVERY, LATER

TESTS = Path(__file__).parent


def test_every_test_that_is_left_out_is_there() -> None:
    for test in (*EVERY, *LATER):
        file, _, name = test.partition("::")
        functions = {
            node.name for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, f"{test} is not there any more: take it out of tests/quick.py"
