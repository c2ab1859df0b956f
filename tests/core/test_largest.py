"""The largest of numbers: of equal ones the first, whatever torch's `topk` takes."""

import pytest
import torch

from seqloom.core.largest import largest


@pytest.mark.parametrize("count", [0, 1, 3, 40, 64, 70])
@pytest.mark.parametrize("kinds", [1, 2, 7, 1000])
def test_it_is_a_stable_sort(count: int, kinds: int) -> None:
    scores = torch.randint(kinds, (3, 2, 64), generator=torch.Generator().manual_seed(1)).double()
    scores[0, 0, ::3] = -torch.inf
    values, places = largest(scores, count)
    expected = scores.sort(dim=-1, descending=True, stable=True)
    assert places.equal(expected.indices[..., :count])
    assert values.equal(expected.values[..., :count])


def test_places_exist_where_a_number_is_none() -> None:
    scores = torch.tensor([[torch.nan, 1.0, 1.0], [0.0, torch.nan, torch.nan]])
    assert bool((largest(scores, 2)[1] < 3).all())
