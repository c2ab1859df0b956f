"""What followed the contexts of a store that are most similar to each of its own, found once and kept in its folder.

    neighbors of n = the k nearest of all keys but n itself        followed[n] = the tokens that came after these

A model that is trained on the store's text reads the table in place of searching at every step: keys do not change.
A position is left out of its own neighbors, because what followed it is what is to be predicted.

    STORE/followed-K/            values.bin (N, K) int32, and manifest.json over it
    STORE/followed-K.json        while it is made: how many rows are safe on the disk

Source: Yogatama et al., arXiv:2102.02557, who also look up all training tokens once; how they leave out a token's own
entry could not be read. Entries of other windows that hold the same words stay.
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

from seqloom.core.files import read_json
from seqloom.core.progress import Show, progress
from seqloom.retrieval.building import appended
from seqloom.retrieval.search import Search, search_of
from seqloom.retrieval.store import VALUES, Store
from seqloom.runs import manifest
from seqloom.runs.durable import discard, sync, write_json
from seqloom.runs.layout import make_folder
from seqloom.runs.lock import lock
from seqloom.runs.manifest import Damaged

AT_ONCE = 1024
"""keys that are searched at once"""
NOTED = 10.0
"""seconds between two notes of what is safe"""
Table: TypeAlias = npt.NDArray[np.int32]


def followed(store: Store, k: int, show: Show = progress) -> Table:
    """The table (N, k), mapped, with -1 where fewer were found; made unless it is there, or continued.

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
            make_folder(folder)
            _fill(store, k, folder, search_of(store), show)
            manifest.seal(folder)
            sync(folder)
            discard(_note(folder))
    if manifest.verify(folder).get(VALUES) != 4 * N * k:
        raise Damaged(f"{folder} is of another store: remove it, and it is made again")
    return np.memmap(folder / VALUES, np.dtype("<i4"), "r", shape=(N, k))


def _fill(store: Store, k: int, folder: Path, search: Search, show: Show) -> None:
    """Appends the rows that are missing, always in the same blocks, so that each is found in the same way."""
    note, N = _note(folder), store.config.entries
    done = read_json(note)["entries"] if note.is_file() else 0
    with (
        appended(folder / VALUES, done * k * 4) as file,
        show("looking up neighbors", N, "tokens", start=done) as advance,
    ):
        noted = time.monotonic()
        while done < N:
            rows = torch.arange(done, min(done + AT_ONCE, N))
            distances, numbers = search.nearest(store.keys[done : done + AT_ONCE], k + 1)
            values = torch.where(distances.isinf(), -1, store.values[numbers])
            file.write(others(values, numbers, rows).numpy().astype("<i4").tobytes())
            done += len(rows)
            if time.monotonic() - noted > NOTED or done == N:
                file.flush()
                os.fsync(file.fileno())
                write_json(note, {"entries": done})
                noted = time.monotonic()
            advance(len(rows))


def others(values: Int[Tensor, "Q n"], numbers: Int[Tensor, "Q n"], excluded: Int[Tensor, " Q"]) -> Int[Tensor, "Q k"]:
    """The values of n - 1 neighbors: without that of number `excluded`, or without the last where it is missing."""
    is_own = numbers == excluded[:, None]
    left_out = torch.where(is_own.any(1), is_own.int().argmax(1), numbers.shape[1] - 1)
    kept = torch.arange(numbers.shape[1]) != left_out[:, None]
    return values[kept].view(len(values), -1)


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")
