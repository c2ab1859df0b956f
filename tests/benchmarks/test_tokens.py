"""tokens.py continues from a full context, or splits the time of a token; a row per mixer."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from seqloom.ops.lag_sum import online
from seqloom.ops.lag_sum.online.blocks import longest


@pytest.fixture
def tokens(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    module = script("tokens")
    monkeypatch.setattr(module, "LEAST", 20)
    monkeypatch.setattr(online, "WINDOW_PRODUCTS", 0)  # without C too
    return module


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_rows_of_tokens(tokens: Any, batch: int) -> None:
    rows = tokens.rows(context=9, batch=batch, repeats=2)
    assert [row["mixer"] for row in rows] == list(tokens.MIXERS)
    assert all(row["batch"] == batch and row["context"] == 9 for row in rows)
    assert all(row["ms_a_token_median"] > 0 for row in rows)
    assert rows[0]["ratio_to_attention_32"] == 1.0


def test_a_time_is_of_one_token(tokens: Any) -> None:
    """Runs of different lengths are compared token by token."""
    runs = {name: tokens.Reading(*tokens.MIXERS[name], 9, 1) for name in (tokens.PEER, "we")}
    spread = {name: [each * run.tokens for each in (3.0, 2.0, 6.0)] for name, run in runs.items()}
    peer = spread[tokens.PEER]
    ratio = {name: [a / b for a, b in zip(times, peer, strict=True)] for name, times in spread.items()}
    result = {"ms_median_quartiles": spread, "ratio_median_quartiles": ratio, "repeats": 1, "loaded": False}
    row = tokens.row("we", 9, 1, runs, result)
    assert runs["we"].tokens != runs[tokens.PEER].tokens
    assert (row["ms_a_token_median"], row["ms_a_token_quartiles"]) == (3.0, [2.0, 6.0])
    assert (row["ratio_to_attention_32"], row["ratio_quartiles"]) == (1.0, [1.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("context", [9, 16, 40])
def test_the_context_is_full_and_every_block_comes(tokens: Any, context: int) -> None:
    for name, (kind, settings) in tokens.MIXERS.items():
        reading = tokens.Reading(kind, settings, context=context, batch=2)
        sizes = {each: tensor.shape for each, tensor in reading.state.items()}
        reading()
        assert reading.state["length"].tolist() == [context + context // 3 + reading.tokens] * 2
        assert {each: tensor.shape for each, tensor in reading.state.items()} == sizes
        if name != tokens.PEER:
            assert reading.state["origin"].tolist() == [context + context // 3] * 2, "nothing was paid ahead"
            assert reading.tokens >= tokens.LEAST
            assert reading.tokens % longest(context) == 0


@pytest.mark.slow
def test_matrices_are_left_out_where_they_are_too_many(tokens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MATRICES", 8)
    assert [row["mixer"] for row in tokens.rows(context=9, batch=1, repeats=1)] == list(tokens.MIXERS)[:-1]


@pytest.mark.parametrize("kind", ["he", "we", "me", "she"])
def test_a_token_in_two_parts(tokens: Any, kind: str) -> None:
    """What is timed is what a step computes, to the state after it."""
    timed, whole = (tokens.Reading(kind, {}, 9, 2) for _ in range(2))
    first, then = tokens.latency(timed)
    assert len(first) == len(then) == timed.tokens
    assert bool((first > 0).all() and (then > 0).all())
    whole()
    for name, tensor in whole.state.items():
        torch.testing.assert_close(timed.state[name], tensor)


@pytest.mark.slow
def test_rows_of_latency(tokens: Any) -> None:
    row = tokens.latency_row("we", 9, 2)
    assert row["us_after_longest"] >= row["us_after_mean"] > 0
    assert row["us_to_the_output_quartiles"][0] <= row["us_to_the_output_median"]
