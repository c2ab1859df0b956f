"""Every search finds the same neighbors: torch in blocks, faiss' exact index, and all of its inverted lists."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.core.progress import show_nothing
from seqloom.retrieval import search
from seqloom.retrieval.search import Exact, search_of, write_lists
from seqloom.retrieval.store import Store, StoreConfig

N, D, Q = 700, 12, 9


def store(folder: Path, lists: int | None = None, probes: int = 32) -> Store:
    keys = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    sums = {"model": "m", "text": "t", "source": "s", "context": 4, "stride": 4}
    config = StoreConfig(entries=N, dim=D, lists=lists, probes=probes, **sums)
    if lists is not None:
        (folder / "entries").mkdir()
        write_lists(folder / "entries/lists.faiss", keys.numpy(), lists, show_nothing)
    return Store(folder, config, keys, torch.arange(N, dtype=torch.int32))


def queries() -> torch.Tensor:
    return torch.randn(Q, D, generator=torch.Generator().manual_seed(1))


def wanted(k: int) -> tuple[np.ndarray, np.ndarray]:
    """All distances, by the definition, sorted."""
    keys = torch.randn(N, D, generator=torch.Generator().manual_seed(0)).double().numpy()
    distances = ((queries().double().numpy()[:, None] - keys) ** 2).sum(2)
    order = np.argsort(distances, 1)[:, :k]
    return np.take_along_axis(distances, order, 1), order


@pytest.mark.sample(3)
@pytest.mark.parametrize("k", [1, 5, 64, N])
@pytest.mark.parametrize("at_once", [1, 700, 1 << 23])
def test_exact_in_blocks(k: int, at_once: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search, "AT_ONCE", at_once)
    distances, numbers = Exact(store(tmp_path).keys).nearest(queries(), k)
    near, order = wanted(k)
    np.testing.assert_array_equal(numbers.numpy(), order)
    np.testing.assert_allclose(distances.numpy(), near, rtol=0, atol=1e-5)


def test_keys_in_half_precision(tmp_path: Path) -> None:
    keys = store(tmp_path).keys
    distances, _ = Exact(keys.half()).nearest(queries(), 5)
    np.testing.assert_allclose(distances.numpy(), wanted(5)[0], rtol=5e-3)


def test_faiss_finds_the_same(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    whole = store(tmp_path, lists=8, probes=8)
    for kind in ("exact", "flat", "lists"):
        distances, numbers = search_of(whole, kind).nearest(queries(), 20)
        near, order = wanted(20)
        np.testing.assert_array_equal(numbers.numpy(), order, err_msg=kind)
        np.testing.assert_allclose(distances.numpy(), near, rtol=0, atol=1e-5, err_msg=kind)


def test_few_lists_find_most_and_say_where_there_are_none(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    few = search_of(store(tmp_path, lists=64, probes=1))
    distances, numbers = few.nearest(queries(), 200)
    assert distances[:, 0].isfinite().all()
    assert distances[:, -1].isinf().all(), "one list of 64 has no 200 keys"
    assert int(numbers.min()) >= 0
    near, _ = wanted(1)
    assert (distances[:, :1].numpy() >= near - 1e-5).all()


@pytest.mark.parametrize(
    ("kind", "words"), [("lists", "no inverted lists: build it with --lists"), ("exat", "did you mean 'exact'")]
)
def test_an_impossible_search(kind: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        search_of(store(tmp_path), kind)


def test_without_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ValueError, match="pip install 'seqloom\\[faiss\\]', or choose --search exact"):
        search_of(store(tmp_path), "flat")
