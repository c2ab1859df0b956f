"""For each entry of a store the tokens that followed its nearest other entries: a table, computed once per store.

    neighbors of n = the k nearest of all keys but n itself        followed[n] = the tokens that came after these

A model that is trained on the store's text reads the table instead of searching at every step: keys do not change. An
entry is left out of its own neighbors, because the token that followed it is the target.

    STORE/followed-K/            values.bin (N, K) int32, and manifest.json over it
    STORE/followed-K.json        while it is made: how many rows are flushed to disk; sealed by its own sha256

Source: Yogatama et al., arXiv:2102.02557, who also look up all training tokens once; the paper does not say how a
token's own entry is left out. Entries of other windows with the same words are not left out.
"""

import os
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.files import sync
from seqloom.core.progress import Show, progress
from seqloom.retrieval.building import open_for_appending
from seqloom.retrieval.progress import Progress, read_progress, write_progress
from seqloom.retrieval.search import Search, search_of
from seqloom.retrieval.store import VALUES, Store
from seqloom.runs import manifest
from seqloom.runs.durable import discard
from seqloom.runs.layout import make_inside
from seqloom.runs.lock import lock
from seqloom.runs.manifest import Damaged

AT_ONCE = 1024
"""keys that are searched at once"""
RECORD_SECONDS = 10.0
"""seconds between two records of what is flushed to disk"""
Table: TypeAlias = npt.NDArray[np.int32]


def following_tokens(store: Store, k: int, show: Show = progress) -> Table:
    """The tokens (N, k) that followed the k nearest other entries of each entry, memory-mapped.

    An entry of which fewer neighbors were found has -1 in their place. A table that is not complete is computed first.

    ValueError, in one line, where the store has no k other entries, and for a table that is cut or altered.
    """
    N = store.config.entries
    if k >= N:
        raise ValueError(
            f"k is {k:,}, and {store.folder} holds {N - 1:,} keys besides a token's own: choose a smaller k"
        )
    folder = store.folder / f"followed-{k}"
    if not (folder / manifest.NAME).is_file():
        with lock(store.folder):
            make_inside(store.folder, folder.name)
            _fill(store, k, folder, search_of(store), show)
            manifest.seal(folder)
            sync(folder)
            discard(_record(folder))
    if manifest.verify(folder).get(VALUES) != 4 * N * k:
        raise Damaged(f"{folder} is of another store: move it elsewhere, and it is made again")
    table = np.memmap(folder / VALUES, np.dtype("<i4"), "r", shape=(N, k))
    if table.min() < -1 or table.max() > int(store.values.max()):
        raise Damaged(f"{folder} has tokens that are not in the store: move it elsewhere, and it is made again")
    return table


def _fill(store: Store, k: int, folder: Path, search: Search, show: Show) -> None:
    """Appends the missing rows, in the same blocks wherever a call continues, so that the table is always the same."""
    record, N = _record(folder), store.config.entries
    ends = [*range(0, N, AT_ONCE), N]
    done = read_progress(record, ends).entries
    with (
        open_for_appending(folder / VALUES, done * k * 4) as file,
        show("looking up neighbors", N, "tokens", start=done) as advance,
    ):
        recorded_at = time.monotonic()
        while done < N:
            rows = torch.arange(done, min(done + AT_ONCE, N))
            distances, numbers = search.nearest(store.keys[done : done + AT_ONCE], k + 1)
            values = torch.where(distances.isinf(), -1, store.values[numbers])
            file.write(without_own(values, numbers, rows).numpy().astype("<i4").tobytes())
            done += len(rows)
            if time.monotonic() - recorded_at > RECORD_SECONDS or done == N:
                file.flush()
                os.fsync(file.fileno())
                write_progress(record, Progress(parts=ends.index(done), entries=done))
                recorded_at = time.monotonic()
            advance(len(rows))


def without_own(values: Int[Tensor, "Q n"], numbers: Int[Tensor, "Q n"], own: Int[Tensor, " Q"]) -> Int[Tensor, "Q k"]:
    """The values of n - 1 of n neighbors: without the one whose number is `own`, or without the last if none is."""
    is_own = numbers == own[:, None]
    column = torch.where(is_own.any(1), is_own.int().argmax(1), numbers.shape[1] - 1)  # the one to leave out
    keep = torch.arange(numbers.shape[1]) != column[:, None]
    return values[keep].view(len(values), -1)


def _record(folder: Path) -> Path:
    """The file that has the number of rows on disk."""
    return folder.with_name(f"{folder.name}.json")
