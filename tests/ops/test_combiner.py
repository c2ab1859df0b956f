"""The price of Combiner against its partition of earlier tokens; tests/mixers has the equation."""

import pytest

from seqloom.core.cost import Cost
from seqloom.ops.attention.combiner.reference import partition, price

DIM, HEADS, MOST = 8, 2, 300


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 3, 16, 400])
@pytest.mark.parametrize("form", ["fixed", "axial", "logsparse"])
def test_a_token_costs_its_direct_tokens_and_regions_and_the_regions_that_are_new(form: str, block: int) -> None:
    known: set[tuple[int, ...]] = set()
    total = Cost()
    for i in range(MOST):
        direct, regions = partition(form, block, i)
        new = [region for region in regions if region not in known]
        known.update(new)
        terms = len(direct) + len(regions) + sum(map(len, new))
        cost = price(form, block, range(i, i + 1), DIM, HEADS)
        assert cost.exp == HEADS * terms
        assert cost.mul == 2 * DIM * terms
        assert cost.div == 2 * HEADS * terms
        assert cost.other == 2 * DIM * sum(len(region) - 1 for region in new)
        K = DIM // HEADS
        assert cost.add == HEADS * (terms * (K - 1) + (terms - 1 - len(new)) * (1 + K))
        total += cost
        whole = price(form, block, range(i + 1), DIM, HEADS)
        assert (whole.mul, whole.add, whole.div, whole.exp) == (total.mul, total.add, total.div, total.exp)
        assert whole.other == total.other


def test_no_tokens_cost_nothing() -> None:
    assert price("logsparse", 2, range(0), DIM, HEADS).mul == 0
    assert price("axial", 2, range(7, 7), DIM, HEADS).other == 0
