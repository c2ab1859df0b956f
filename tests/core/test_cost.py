"""Prices: spans of positions, and sums."""

import pytest

from seqloom.core.cost import Cost, Span, gate, linear


@pytest.mark.parametrize("T", [1, 2, 5, 9])
@pytest.mark.parametrize("context", [None, 1, 3, 9])
def test_a_span_looks_back_on_the_sum_over_positions(T: int, context: int | None) -> None:
    back = [min(position, context or position) for position in range(1, T + 1)]
    whole, last = Span(T), Span(T, "token")
    assert (whole.rows, whole.terms(context), whole.first) == (T, sum(back), 1)
    assert (last.rows, last.terms(context), last.first) == (1, back[-1], int(T == 1))
    assert Span(0).first == 0


def test_costs_add() -> None:
    both = linear(2, 3, 4) + Cost(add=1, state=5, path=("addition",))
    assert both == Cost(mul=24, add=17, params=12, state=5, path=("multiplication", "cumulation", "addition"))
    assert linear(2, 3, 4, bias=True) == Cost(mul=24, add=24, params=16, path=("multiplication", "cumulation"))
    assert both.total == 41
    assert 2 * both == Cost(mul=48, add=34, params=12, state=5, path=both.path)
    assert gate(3) == Cost(mul=3, add=3, div=3, exp=3, path=("multiplication",))
