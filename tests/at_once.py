"""Which cases of a table run in `make test`; the others run in `make test-all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def first(number: int, cases: Iterable[Any]) -> list[Any]:
    """The cases with all but the first `number` marked slow; a tuple is the values of several arguments."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.slow] if n >= number else [])
        for n, case in enumerate(cases)
    ]
