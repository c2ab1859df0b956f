"""Builds a store in one pass over a text; an interrupted build continues where it stopped.

The text is read as for scoring: in windows of the model's context, with every token predicted once. Keys are appended
to a file, and every few seconds the number of keys that are flushed to disk is recorded. A build that continues cuts
the file there and computes later keys again.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from seqloom.core.arguments import count
from seqloom.core.files import open_regular, sync
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, progress
from seqloom.core.rest import Rest
from seqloom.data.tokens import Tokens
from seqloom.data.windows import cut, held_out
from seqloom.retrieval.keys import Keys, key_width
from seqloom.retrieval.progress import Progress, read_progress, write_progress
from seqloom.retrieval.search import write_lists
from seqloom.retrieval.store import KEYS, LISTS, ORIGIN, VALUES, Store, StoreConfig, config_of, open_store
from seqloom.runs import manifest
from seqloom.runs.durable import discard, replace
from seqloom.runs.layout import differing, make_inside, seal_settings
from seqloom.runs.lock import lock
from seqloom.runs.state import model_hash

Rows: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""inputs, targets and keep of `held_out`"""
RECORD_SECONDS = 10.0
"""seconds between two records of what is flushed to disk"""
HASHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "model": ("of another model, or of other weights", ("run", "step")),
    "text": ("of another text", ("source",)),
}
"""the settings of a store that are hashes: what differs where they do, and the settings that say where it is from"""


def build(
    model: Model,
    tokens: Tokens,
    folder: str | Path,
    *,
    source: str,
    batch: int = 64,
    stride: int | None = None,
    half: bool = False,
    lists: int | None = None,
    probes: int | None = None,
    run: str = "",
    step: int | None = None,
    show: Show = progress,
) -> Store:
    """The store of a text in `folder`: opened if it is complete, else built, or continued where a build stopped.

    Windows begin `stride` tokens apart, by default the context. With `lists` faiss sorts the keys into that many
    lists, of which a search reads `probes` (8). `run` and `step` say where the model was loaded from. ValueError for a
    folder of another store, for `probes` without `lists`, and where faiss is wanted and missing.
    """
    require_generates(model, "predict the next token")
    count("batch", batch, least=1)
    if probes is not None and lists is None:
        raise ValueError(f"probes={probes} needs lists: give their number, or leave probes out")
    folder = Path(folder)
    context = model.config.context
    stride = context if stride is None else stride
    windows = len(cut(tokens, context, stride)[0])
    if lists is not None and lists > len(tokens):
        raise ValueError(f"{lists:,} lists for {len(tokens):,} keys: choose fewer")
    config = StoreConfig(
        model=model_hash(model),
        text=hashlib.sha256(np.ascontiguousarray(tokens.ids).data).hexdigest(),
        source=source,
        entries=len(tokens),
        dim=key_width(model),
        half=half,
        context=context,
        stride=stride,
        lists=lists,
        probes=StoreConfig.model_fields["probes"].default if probes is None else probes,
        run=run,
        step=step,
    )
    with lock(folder):
        _prepare(folder, config)
        if not (folder / "entries" / manifest.NAME).is_file():
            _Pass(model, tokens, folder, config).write_entries(batch, windows, show)
            if config.lists is not None:
                write_lists(folder / "entries" / LISTS, _map_keys(folder, config), config.lists, show)
            manifest.seal(folder / "entries")
            sync(folder / "entries")
            discard(folder / "progress.json")
        return open_store(folder, model)


@final
class _Pass:
    """The pass over a text that fills a store's files."""

    def __init__(self, model: Model, tokens: Tokens, folder: Path, config: StoreConfig) -> None:
        self._model, self._tokens, self._folder, self._config = model, tokens, folder, config

    def write_entries(self, batch: int, windows: int, show: Show) -> None:
        """Writes the keys and values of the windows that are not on disk yet; reads `batch` windows at a time."""
        record = self._folder / "progress.json"
        firsts, sizes, _ = cut(self._tokens, self._config.context, self._config.stride)
        ends = [0, *(firsts + sizes).tolist()]  # the tokens that are predicted in the first windows
        on_disk = read_progress(record, ends)
        entries, done = on_disk.entries, on_disk.parts
        model, config = self._model, self._config
        keys = Keys(model)
        try:
            with (
                open_for_appending(
                    self._folder / "entries" / KEYS, entries * config.dim * config.dtype.itemsize
                ) as key_file,
                open_for_appending(self._folder / "entries" / VALUES, entries * 4) as value_file,
                show("reading", config.entries, "tokens", start=entries) as advance,
                Rest(model),
            ):
                recorded_at = time.monotonic()
                if done == 0:
                    batches = held_out(self._tokens, config.context, batch, config.stride)
                else:
                    # one window at a time, since the earlier build may have stopped inside a batch of this size
                    single = held_out(self._tokens, config.context, 1, config.stride)
                    batches = _batch_windows(islice(single, done, None), batch)
                for inputs, targets, keep in batches:
                    new_keys = keys.read(model, inputs.to(model.device))[keep.to(model.device)].cpu()
                    key_file.write(new_keys.numpy().astype(config.dtype).tobytes())
                    value_file.write(targets[keep].numpy().astype("<i4").tobytes())
                    done, entries = done + len(inputs), entries + len(new_keys)
                    if time.monotonic() - recorded_at > RECORD_SECONDS or done == windows:
                        for file in (key_file, value_file):
                            file.flush()
                            os.fsync(file.fileno())
                        write_progress(record, Progress(parts=done, entries=entries))
                        recorded_at = time.monotonic()
                    advance(len(new_keys))
        finally:
            keys.close()
        assert entries == config.entries, "a token was left out or read twice"


def _batch_windows(rows: Iterator[Rows], batch: int) -> Iterator[Rows]:
    """Batches of up to `batch` windows, from rows of one window each."""
    while windows := list(islice(rows, batch)):
        inputs, targets, keep = (torch.cat(column) for column in zip(*windows, strict=True))
        yield inputs, targets, keep


def open_for_appending(path: Path, size: int) -> BinaryIO:
    """The file opened to append to, cut to the `size` bytes that are on disk for sure.

    ValueError where it has fewer, and for a link, a FIFO or a device.
    """
    file = open_regular(path, "ab", follow=False)
    if os.fstat(file.fileno()).st_size < size:
        file.close()
        raise ValueError(f"{path} is cut: it has fewer than the {size:,} bytes that were written: remove the store")
    file.truncate(size)
    return file


def _prepare(folder: Path, config: StoreConfig) -> None:
    """Makes the store's folder. ValueError if it holds a store of other settings, or something else."""
    path = folder / "store.json"
    if path.exists():
        saved = dict(config_of(folder))
        new = dict(config)
        different = [name for name in new if saved[name] != new[name] and name not in ORIGIN]
        if different:
            kind = next((HASHES[name][0] for name in different if name in HASHES), "of other settings")
            origins = [origin for name in different if name in HASHES for origin in HASHES[name][1]]
            shown = [name for name in (*origins, *different) if name not in HASHES]
            values = differing({name: saved[name] for name in shown}, {name: new[name] for name in shown})
            raise ValueError(f"{folder} holds a store {kind}{f' ({values})' if values else ''}: choose another --out")
    elif any(entry.name != "lock" for entry in folder.iterdir()):
        raise ValueError(f"{folder} holds something else than a store: choose another --out")
    make_inside(folder, "entries")
    if not path.exists():
        replace(path, seal_settings(config.model_dump(mode="json")))


def _map_keys(folder: Path, config: StoreConfig) -> np.ndarray:
    """The keys (N, D) of a store, mapped from the disk."""
    return np.memmap(folder / "entries" / KEYS, config.dtype, "r", shape=(config.entries, config.dim))
