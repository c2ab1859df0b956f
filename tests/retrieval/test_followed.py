"""The table of following tokens: the k nearest other keys of each key; built once, whole or resumed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.core.progress import show_nothing
from seqloom.retrieval import followed as module
from seqloom.retrieval.building import build
from seqloom.retrieval.followed import following_tokens, without_own
from seqloom.retrieval.lookup import load_store
from seqloom.retrieval.store import Store
from seqloom.runs.layout import seal_settings
from seqloom.runs.manifest import Damaged
from tests.retrieval.test_knn import built, distinct, model
from tests.retrieval.test_store import resealed


def by_sorting(store: Store, k: int) -> list[list[int]]:
    """The ids after the k nearest keys, of all distances sorted, with the diagonal left out."""
    keys = store.keys.double()
    gaps = (keys[:, None] - keys[None]).square().sum(2).fill_diagonal_(torch.inf)
    return [[int(store.values[n]) for n in row[:k]] for row in gaps.argsort(1)]


@pytest.mark.parametrize("k", [1, 4, 35])
def test_it_is_of_the_nearest_others(k: int, tmp_path: Path) -> None:
    store = built(model(), tmp_path / "store", distinct())
    table = following_tokens(store, k, show_nothing)
    assert table.tolist() == by_sorting(store, k)
    with_own = store.keys.double()
    nearest = (with_own[:, None] - with_own[None]).square().sum(2).argsort(1)[:, 0]
    assert nearest.tolist() == list(range(36)), "the own entry would be the nearest of all"


def test_the_own_position_is_left_out_and_no_other() -> None:
    numbers = torch.tensor([[4, 0, 2], [1, 5, 3], [7, 8, 9]])
    values = numbers * 10
    assert without_own(values, numbers, torch.tensor([0, 1, 2])).tolist() == [[40, 20], [50, 30], [70, 80]]


class Stopped(Exception):
    """In place of a power cut."""


def test_it_resumes_where_it_was_stopped_and_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 5)
    monkeypatch.setattr(module, "RECORD_SECONDS", 0.0)
    store = built(model(), tmp_path / "store", distinct())
    begun: list[float] = []

    def stopping(after: int) -> Any:
        @contextmanager
        def show(*_: Any, start: float = 0, **__: Any) -> Iterator[Callable[..., None]]:
            begun.append(start)
            calls = iter(range(after))

            def advance(*_: Any, **__: Any) -> None:
                if next(calls, None) is None:
                    raise Stopped

            yield advance

        return show

    for after in (2, 1):
        with pytest.raises(Stopped):
            following_tokens(store, 3, stopping(after))
    assert begun == [0, 15]
    (tmp_path / "store/followed-3/values.bin").open("ab").write(b"cut off")  # what was not noted is written again
    table = following_tokens(store, 3, stopping(99))
    assert begun[2:] == [25]
    assert table.tolist() == by_sorting(store, 3)
    assert not (tmp_path / "store/followed-3.json").exists()
    assert np.array_equal(following_tokens(store, 3, stopping(0)), table), "it is not made again"
    assert len(begun) == 3


def test_impossible_tables(tmp_path: Path) -> None:
    store = built(model(), tmp_path / "store", distinct())
    with pytest.raises(ValueError, match=r"k is 36, and .* holds 35 keys besides a token's own: choose a smaller k"):
        following_tokens(store, 36, show_nothing)
    following_tokens(store, 2, show_nothing)
    path = tmp_path / "store/followed-2/values.bin"
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(Damaged, match=r"values\.bin"):
        following_tokens(store, 2, show_nothing)
    path.write_bytes(data[:-1])
    with pytest.raises(Damaged, match=r"values\.bin"):
        following_tokens(store, 2, show_nothing)


@pytest.mark.parametrize("token", [-2, 14])
def test_tokens_that_are_not_in_the_store(tmp_path: Path, token: int) -> None:
    store = built(model(), tmp_path / "store", distinct())
    following_tokens(store, 2, show_nothing)
    resealed(tmp_path / "store/followed-2", "values.bin", lambda values: values.put(3, token))
    with pytest.raises(Damaged, match="followed-2 has tokens that are not in the store"):
        following_tokens(store, 2, show_nothing)


@pytest.mark.parametrize(
    "record", [{"entries": 20}, {"parts": 3, "entries": 14}, {"parts": 99, "entries": 36}, {"parts": -1}]
)
def test_a_record_that_no_build_wrote(record: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 5)
    store = built(model(), tmp_path / "store", distinct())
    (tmp_path / "store/followed-3.json").write_bytes(seal_settings(record))
    with pytest.raises(ValueError, match=r"followed-3\.json|parts: ") as raised:
        following_tokens(store, 3, show_nothing)
    assert "\n" not in str(raised.value)


def test_a_store_that_names_no_run(tmp_path: Path) -> None:
    built(model(), tmp_path / "store")
    with pytest.raises(ValueError, match="does not name the run of its model: build it with `seqloom knn build`"):
        load_store(tmp_path / "store")


@pytest.mark.slow
def test_where_the_run_lies_is_no_part_of_the_store(tmp_path: Path) -> None:
    first = built(model(), tmp_path / "store", run="runs/plain")
    again = build(
        model(), distinct(), tmp_path / "other", source="elsewhere", run="runs/moved", step=3, show=show_nothing
    )
    moved = built(model(), tmp_path / "store", run="runs/moved")
    assert moved.config.run == "runs/plain"
    assert first.config.digest == moved.config.digest != again.config.digest
