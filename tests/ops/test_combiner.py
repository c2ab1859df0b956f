"""The price of Combiner, token by token, against its partition of earlier tokens; tests/mixers has the equation."""

import pytest

from seqloom.ops.combiner.reference import partition, price

DIM, HEADS, BLOCK = 8, 2, 3


@pytest.mark.parametrize("form", ["fixed", "axial", "logsparse"])
def test_a_token_costs_its_direct_tokens_and_regions_and_the_regions_that_are_new(form: str) -> None:
    known: set[tuple[int, ...]] = set()
    for i in range(20):
        direct, regions = partition(form, BLOCK, i)
        new = [region for region in regions if region not in known]
        known.update(new)
        terms = len(direct) + len(regions) + sum(map(len, new))
        cost = price(form, BLOCK, [i], DIM, HEADS)
        assert cost.exp == HEADS * terms
        assert cost.mul == 2 * DIM * terms
        assert cost.div == 2 * HEADS * terms
        assert cost.other == 2 * DIM * sum(len(region) - 1 for region in new)
