"""benchmarks/tokens.py reads on from a full context, and writes one row for each mixer."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("batch", [1, 3])
def test_rows(script: Callable[[str], Any], batch: int) -> None:
    tokens = script("tokens")
    rows = tokens.rows(context=9, batch=batch, repeats=2)
    assert [row["mixer"] for row in rows] == list(tokens.MIXERS)
    assert all(row["batch"] == batch and row["context"] == 9 for row in rows)
    assert all(row["ms_a_token_median"] > 0 for row in rows)
    assert rows[0]["ratio_to_attention_32"] == 1.0


def test_the_context_is_full_and_stays_so(script: Callable[[str], Any]) -> None:
    tokens = script("tokens")
    for kind, settings in tokens.MIXERS.values():
        reading = tokens.Reading(kind, settings, context=9, batch=2)
        sizes = {name: tensor.shape for name, tensor in reading.state.items()}
        reading()
        assert reading.state["seen"].tolist() == [12 + tokens.TOKENS] * 2
        assert {name: tensor.shape for name, tensor in reading.state.items()} == sizes
