"""The nearest keys of a store, by squared distance.

    d_i = |q|² - 2 q·k_i + |k_i|²                        the k smallest, the nearest first

    exact    torch, in blocks of keys, so that memory stays bounded
    flat     faiss' exact index; the same neighbors
    lists    faiss' inverted lists: keys are sorted by the nearest of L centers, and a search reads a few of the lists

Source: Johnson et al., Billion-scale similarity search with GPUs, arXiv:1702.08734, section 4; keys are not compressed.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.config import suggestion
from seqloom.core.largest import largest
from seqloom.core.progress import Show
from seqloom.retrieval.store import Store
from seqloom.runs.durable import replacing
from seqloom.runs.manifest import Damaged

Kind: TypeAlias = Literal["exact", "flat", "lists"]
KINDS = ("exact", "flat", "lists")
AT_ONCE = 1 << 23
"""the most distances that are in memory at once"""
TRAINED_ON = 64
"""the most keys per list from which the centers are computed"""
ADDED = 1 << 16
"""keys that are added to a faiss index at once"""
Nearest: TypeAlias = tuple[Float[Tensor, "Q k"], Int[Tensor, "Q k"]]
"""squared distances in ascending order, and the numbers of the keys"""


class Search(ABC):
    """Finds the keys of a store that are nearest to queries."""

    @abstractmethod
    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """The k nearest keys of each query, in float32 on the CPU; missing ones are at an infinite distance."""


@final
class Exact(Search):
    """Compares queries with all keys, in blocks of keys; of equally near keys it takes the first."""

    def __init__(self, keys: Float[Tensor, "N D"]) -> None:
        self._keys = keys

    @override
    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        queries = queries.float().cpu()
        N, Q = len(self._keys), len(queries)
        block = max(AT_ONCE // max(Q, 1), k)
        nearness, numbers = torch.empty(Q, 0), torch.empty(Q, 0, dtype=torch.int64)
        squared_norms = queries.square().sum(1, keepdim=True)
        for first in range(0, N, block):
            keys = self._keys[first : first + block].float()
            all_distances = torch.addmm(keys.square().sum(1), queries, keys.T, alpha=-2) + squared_norms
            # a key that is not finite has no distance, and is as if it were missing
            block_nearness, index = largest(torch.where(all_distances.isnan(), -torch.inf, -all_distances), k)
            # the k nearest of those found so far and those of this block
            nearness = torch.cat([nearness, block_nearness], 1)
            numbers = torch.cat([numbers, index + first], 1)
            nearness, order = largest(nearness, k)
            numbers = numbers.gather(1, order)
        return (-nearness).clamp(min=0), numbers


@final
class Faiss(Search):
    """An index of faiss over `entries` keys."""

    def __init__(self, index: Any, entries: int) -> None:
        self._index, self._entries = index, entries

    @override
    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        distances, numbers = self._index.search(np.ascontiguousarray(queries.float().cpu().numpy()), k)
        if numbers.max(initial=-1) >= self._entries:
            raise Damaged(f"the inverted lists name a key beyond the {self._entries:,} of the store: build it again")
        missing = torch.from_numpy(numbers < 0)
        distances = torch.where(missing, torch.inf, torch.from_numpy(distances))
        return distances, torch.where(missing, 0, torch.from_numpy(numbers))


def search_of(store: Store, kind: Kind | None = None) -> Search:
    """The search of a kind, by default `lists` if the store has them, else `exact`.

    ValueError for an unknown kind, for lists that the store does not have, and where faiss is wanted and missing.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"unknown search {kind!r}; {suggestion(str(kind), KINDS)}")
    if kind is None:
        kind = "exact" if store.lists is None else "lists"
    if kind == "exact":
        return Exact(store.keys)
    if kind == "flat":
        index = faiss().IndexFlatL2(store.config.dim)
        _add(index, store.keys.numpy())
        return Faiss(index, store.config.entries)
    if store.lists is None:
        raise ValueError(f"{store.folder} has no inverted lists: build it with --lists, or choose --search exact")
    index = _read_lists(store.lists, store)
    index.nprobe = min(store.config.probes, index.nlist)
    return Faiss(index, store.config.entries)


def _read_lists(path: Path, store: Store) -> Any:
    """The inverted lists in a file. Damaged where they are none, or not those of the store's keys."""
    library = faiss()
    try:
        index = library.read_index(str(path))
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rpartition("Error: ")[2]
        raise Damaged(f"{path} cannot be read ({reason}): build the store again") from None
    config = store.config
    if not isinstance(index, library.IndexIVFFlat) or (index.d, index.ntotal) != (config.dim, config.entries):
        raise Damaged(f"{path} holds no inverted lists of this store's keys: build the store again")
    return index


def write_lists(path: Path, keys: np.ndarray, lists: int, show: Show) -> None:
    """Sorts keys (N, D) into inverted lists in a file. OSError where it cannot be written; an old one then stays."""
    library = faiss()
    index = library.IndexIVFFlat(library.IndexFlatL2(keys.shape[1]), keys.shape[1], lists)
    index.cp.seed = 0
    index.cp.min_points_per_centroid = 1
    sample = np.random.default_rng(0).choice(len(keys), min(len(keys), TRAINED_ON * lists), replace=False)
    index.train(np.ascontiguousarray(keys[np.sort(sample)], np.float32))
    with show("sorting into lists", len(keys), "keys") as advance:
        for first in range(0, len(keys), ADDED):
            block = keys[first : first + ADDED]
            index.add(np.ascontiguousarray(block, np.float32))
            advance(len(block))
    with replacing(path) as file:
        library.write_index(index, library.PyCallbackIOWriter(file.write))


def faiss() -> Any:
    """The faiss library. ValueError if it is not installed."""
    try:
        import faiss as library
    except ImportError:
        raise ValueError("faiss is not installed: pip install 'seqloom[faiss]', or choose --search exact") from None
    return library


def _add(index: Any, keys: np.ndarray) -> None:
    """Adds keys (N, D) to a faiss index."""
    for first in range(0, len(keys), ADDED):
        index.add(np.ascontiguousarray(keys[first : first + ADDED], np.float32))
