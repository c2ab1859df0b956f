"""Samples: tokens without text join the token that completes them; colors change at the named probabilities."""

import pytest

from seqloom.report.samples import EDGES, STEPS, UNFINISHED, Span, join_spans


def test_joined() -> None:
    result = join_spans([("a", 0.5), ("", 0.5), ("", 0.5), ("🐑", 0.8), ("", 0.25)])
    assert [(span.text, span.tokens) for span in result] == [("a", 1), ("🐑", 3), (UNFINISHED, 1)]
    assert [span.probability for span in result] == pytest.approx([0.5, 0.2, 0.25])
    assert [span.share for span in result] == ["50%", "20%, 3 tokens", "25%"]


@pytest.mark.parametrize(("probability", "step"), [(0.0, 0), (0.01, 1), (0.0999, 2), (0.5, 5), (0.9, 7), (1.0, 7)])
def test_steps(probability: float, step: int) -> None:
    assert Span("a", probability, 1).step == step
    assert len(STEPS) == len(EDGES) + 1
