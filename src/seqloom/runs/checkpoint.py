"""Checkpoints: named tensors, JSON and files of one step, saved completely or not at all, and verified before use.

    step_00001234/   model.safetensors, …   one file a group of tensors
                     meta.json              the step, what the groups hold, the caller's JSON
                     tokenizer.json, …      copies of the caller's files
                     manifest.json          written last: sizes and sums (see `manifest`)

Where several processes write one (`seqloom.runs.shards`), each has files with its parts of the tensors.

A save that has returned is never lost to a kill or a full disk; one that has not leaves the earlier ones as they were.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from torch import Tensor

from seqloom.core.available_memory import require_memory
from seqloom.core.files import sync
from seqloom.runs import about, durable, manifest, steps
from seqloom.runs.layout import make_folder
from seqloom.runs.manifest import Damaged
from seqloom.runs.tensors import SUFFIX, read_tensors, storable, write_tensors

__all__ = ["Checkpoint", "Damaged", "load", "new_step", "newest", "peek", "prune", "read_parts", "save"]


@final
@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: its tensors by group and name (on the CPU), the caller's JSON, the paths of its files."""

    path: Path
    step: int
    tensors: dict[str, dict[str, Tensor]]
    meta: dict[str, Any]
    files: dict[str, Path]


def save(
    folder: str | Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    meta: Mapping[str, Any],
    files: Mapping[str, Path] | None = None,
) -> Path:
    """Saves a step under `folder` (made when missing) and returns the checkpoint's path when it is safe on the disk.

    `tensors` by group and name; `meta` is plain JSON; `files` are copied under the given names. The same step saved
    again replaces the old one. ValueError for what cannot be stored, before anything is written; OSError when the
    system refuses (a full disk), and then the earlier checkpoints are untouched.
    """
    folder, files = Path(folder), files or {}
    _check(step, tensors, meta, files)
    stored = {group: storable(group, named) for group, named in tensors.items()}
    groups = {group: {"tensors": list(named), "complex": pairs} for group, (named, pairs) in stored.items()}
    meta_json = json.dumps({"step": step, "groups": groups, "meta": meta}, allow_nan=False)
    with new_step(folder, step) as temporary:
        durable.write_new(temporary / about.NAME, meta_json.encode())
        for group, (named, _) in stored.items():
            path = temporary / f"{group}{SUFFIX}"
            write_tensors(path, named)
            shutil.copymode(temporary / about.NAME, path)  # safetensors makes files that only the owner can read
            sync(path)
        for name, source in files.items():
            shutil.copyfile(source, temporary / name)
            sync(temporary / name)
        manifest.seal(temporary)
    return folder / steps.name_of(step)


@contextmanager
def new_step(folder: Path, step: int) -> Iterator[Path]:
    """A folder under a temporary name, which is the checkpoint of a step when the block ends; the block seals it.

    OSError, in one line, where the system refuses, and then the earlier checkpoints are untouched.
    """
    temporary = folder / steps.temporary_name(step, os.getpid())
    make_folder(folder)
    durable.discard(temporary)
    durable.claim(temporary)
    try:
        temporary.mkdir(exist_ok=True)  # another process of the group may be first
        yield temporary
        sync(temporary)
        steps.put(temporary, folder / steps.name_of(step))
    except OSError as error:
        cause = error.strerror or str(error)
        message = f"cannot save step {step} in {folder}: {cause}; the earlier checkpoints are untouched"
        raise OSError(error.errno or 0, message) from error
    finally:
        durable.discard(temporary)


def load(path: str | Path, *, whole: bool = True, verify: bool = True) -> Checkpoint:
    """The checkpoint in `path`, after every byte of it was verified.

    Without `whole`, the tensors that processes have written in parts come without values (meta): `read_parts` gives
    them. Without `verify`, which is for those who know that another process does, only the sizes of files are checked.

    `Damaged`, in one line with the file, when it is not as it was written; ValueError when a newer seqloom wrote it;
    FileNotFoundError where it is missing.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no checkpoint in {path}")
    names = manifest.sizes(path)
    description = about.describe(path)
    if whole or not description.is_divided:
        require_memory(f"reading {path}", sum(names.values()), "read it on a machine with more memory")
    if verify:
        manifest.verify(path)
    if description.is_divided:
        own_files = {about.NAME, *(name for name in names if name.endswith(SUFFIX))}
        tensors = _describe_parts(path, description.groups)
    else:
        own_files = {about.NAME, *(f"{group}{SUFFIX}" for group in description.groups)}
        if missing := sorted(own_files - set(names)):
            raise Damaged(f"{path}: {missing[0]} is missing: {manifest.NAME} does not name it")
        tensors = {
            group: read_tensors(path / f"{group}{SUFFIX}", group_description.tensors, group_description.complex)
            for group, group_description in description.groups.items()
        }
    files = {name: path / name for name in names if name not in own_files}
    saved = Checkpoint(path, description.step, tensors, description.meta, files)
    return read_parts(saved, {}) if whole else saved


def read_parts(saved: Checkpoint, like: Mapping[str, Mapping[str, Tensor]]) -> Checkpoint:
    """A checkpoint with the values of all tensors, where `load` has left them out; else the checkpoint as it is.

    Of a tensor that is divided among processes in `like`, which has the groups and names of the checkpoint, each
    process reads its part; without one, the whole. `Damaged` where a file has changed.
    """
    if not any(tensor.is_meta for named in saved.tensors.values() for tensor in named.values()):
        return saved
    from seqloom.runs import shards  # which imports torch's distributed checkpoints

    return replace(saved, tensors=shards.read(saved.path, saved.tensors, like))


def _describe_parts(path: Path, groups: Mapping[str, about.Group]) -> dict[str, dict[str, Tensor]]:
    """The tensors that processes have written in parts, without values."""
    from seqloom.runs import shards

    return shards.describe(path, groups)


def newest(folder: str | Path, say: Callable[[str], None] | None = None, *, whole: bool = True) -> Checkpoint | None:
    """The newest checkpoint under `folder` that verifies, for the process that holds the run's lock; None without any.

    A damaged one is moved aside with one printed line; leftovers of killed processes are removed. A checkpoint of a
    newer seqloom is left alone, and raises ValueError. Readers without the lock use `peek`. `whole` as for `load`.
    """
    folder, say = Path(folder), say or _to_stderr
    if not folder.is_dir():
        return None
    steps.repair(folder)
    for path in reversed(steps.whole(folder).values()):
        try:
            return load(path, whole=whole)
        except Damaged as error:
            say(f"{error}; moved to {steps.quarantine(path).name}, going back to the checkpoint before it")
    return None


def peek(folder: str | Path, say: Callable[[str], None] | None = None) -> Checkpoint | None:
    """As `newest`, but changes nothing: for readers of a run that another process may be writing.

    `Damaged`, for the newest, where all checkpoints are damaged.
    """
    folder, say = Path(folder), say or _to_stderr
    if not folder.is_dir():
        return None
    skipped: list[Damaged | FileNotFoundError] = []
    for path in steps.newest_first(folder):
        try:
            saved = load(path)
        except (Damaged, FileNotFoundError) as error:
            if not path.exists():  # replaced or deleted meanwhile: there is a newer one
                return peek(folder, say)
            skipped.append(error)
            continue
        for skipped_error in skipped:
            say(f"{skipped_error}; reading the checkpoint before it")
        return saved
    if skipped:
        raise skipped[0]
    return None


def prune(folder: str | Path, keep_last: int = 2, best: int | None = None) -> list[int]:
    """Deletes all checkpoints but the last `keep_last` and that of step `best`; returns the deleted steps."""
    if keep_last < 1:
        raise ValueError(f"keep_last is {keep_last}: at least one checkpoint must stay")
    checkpoints = steps.whole(Path(folder))
    unwanted = [step for step in list(checkpoints)[:-keep_last] if step != best]
    steps.delete([checkpoints[step] for step in unwanted])
    return unwanted


def _check(step: int, groups: Mapping[str, object], meta: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """ValueError for a negative step, for JSON that cannot be restored, and for a name that no file can have."""
    if step < 0:
        raise ValueError(f"a checkpoint's step is 0 or more, not {step}")
    durable.plain(meta, "meta")
    reserved = {about.NAME, manifest.NAME, *(f"{group}{SUFFIX}" for group in groups)}
    for name in (*groups, *files):
        if not re.fullmatch(manifest.PLAIN, name) or (name in files and name in reserved):
            raise ValueError(f"a checkpoint cannot hold a file named {name!r}: choose another name")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
