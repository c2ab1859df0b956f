"""Processes that start together agree on one name, whatever an earlier attempt left in the store."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from seqloom.training.attempt import agree_on_attempt


def agree(store: HashStore, size: int) -> set[str]:
    with ThreadPoolExecutor(size) as threads:
        return set(threads.map(lambda rank: agree_on_attempt(store, rank, size, 30), range(size)))


@pytest.mark.parametrize("size", [2, 3])
def test_each_attempt_has_one_name_of_its_own(size: int) -> None:
    store = HashStore()
    names = [agree(store, size) for _ in range(3)]
    assert [len(each) for each in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3


def test_a_process_that_died_while_they_met_is_replaced() -> None:
    store = HashStore()
    store.set("hello/1", "of a dead process")
    store.set("welcome", '["of a dead process", "of a dead process"]')
    store.set("ack/1", "of a dead process")
    assert len(agree(store, 2)) == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_waits_in_vain_says_so(rank: int) -> None:
    with pytest.raises(RuntimeError, match="not all answered in time"):
        agree_on_attempt(HashStore(), rank, 2, 0.05)
