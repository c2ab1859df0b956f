"""Authors dealt into folds: the largest first, each to the smallest fold."""

import pytest

from seqloom.data.folds import deal


def test_the_largest_go_first_and_each_to_the_smallest_fold() -> None:
    sizes = {"a": 10, "b": 7, "c": 6, "d": 4, "e": 2}
    # a → 0 (10), b → 1 (7), c → 1 or 0? 1 has 7 < 10, so c → 1 (13), d → 0 (14), e → 1 (15)
    assert deal(sizes, 2, "books") == {"a": 0, "b": 1, "c": 1, "d": 0, "e": 1}


def test_the_deal_does_not_depend_on_the_order_of_the_authors() -> None:
    sizes = {f"author {number}": 5 for number in range(12)}
    assert deal(sizes, 3, "books") == deal(dict(reversed(sizes.items())), 3, "books")
    assert sorted(deal(sizes, 3, "books").values()) == sorted([*range(3)] * 4)


def test_more_folds_than_authors_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 authors, validation aside, cannot be dealt into 2 folds"):
        deal({"a": 1}, 2, "books")
