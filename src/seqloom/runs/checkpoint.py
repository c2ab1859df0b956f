"""Checkpoints: named tensors, JSON and files of one step, saved completely or not at all, and verified before use.

    step_00001234/   model.safetensors, …   one file a group of tensors
                     meta.json              the step, what the groups hold, the caller's JSON
                     tokenizer.json, …      copies of the caller's files
                     manifest.json          written last: sizes and sums (see `manifest`)

A save that has returned is never lost to a kill or a full disk; one that has not leaves the earlier ones as they were.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torch import Tensor

from seqloom.core.available_memory import require_memory
from seqloom.core.files import sync
from seqloom.runs import about, durable, manifest, steps
from seqloom.runs.layout import make_folder
from seqloom.runs.manifest import Damaged
from seqloom.runs.tensors import read_tensors, storable, write_tensors

__all__ = ["Checkpoint", "Damaged", "load", "newest", "peek", "prune", "save"]


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
    make_folder(folder)
    temporary = folder / f"{steps.name_of(step)}.tmp-{os.getpid()}"
    durable.discard(temporary)
    durable.claim(temporary)
    try:
        temporary.mkdir()
        durable.write_new(temporary / about.NAME, meta_json.encode())
        for group, (named, _) in stored.items():
            path = temporary / f"{group}.safetensors"
            write_tensors(path, named)
            shutil.copymode(temporary / about.NAME, path)  # safetensors makes files that only the owner can read
            sync(path)
        for name, source in files.items():
            shutil.copyfile(source, temporary / name)
            sync(temporary / name)
        manifest.seal(temporary)
        sync(temporary)
        steps.put(temporary, folder / steps.name_of(step))
    except OSError as error:
        cause = error.strerror or str(error)
        message = f"cannot save step {step} in {folder}: {cause}; the earlier checkpoints are untouched"
        raise OSError(error.errno or 0, message) from error
    finally:
        durable.discard(temporary)
    return folder / steps.name_of(step)


def load(path: str | Path) -> Checkpoint:
    """The checkpoint in `path`, after every byte of it was verified.

    `Damaged`, in one line with the file, when it is not as it was written; ValueError when a newer seqloom wrote it;
    FileNotFoundError where it is missing.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no checkpoint in {path}")
    size = sum(manifest.sizes(path).values())
    require_memory(f"reading {path}", size, "read it on a machine with more memory")
    names = manifest.verify(path)
    description = about.describe(path)
    own_files = {about.NAME, *(f"{group}.safetensors" for group in description.groups)}
    if missing := sorted(own_files - set(names)):
        raise Damaged(f"{path}: {missing[0]} is missing: {manifest.NAME} does not name it")
    tensors = {
        group: read_tensors(path / f"{group}.safetensors", group_description.tensors, group_description.complex)
        for group, group_description in description.groups.items()
    }
    files = {name: path / name for name in names if name not in own_files}
    return Checkpoint(path, description.step, tensors, description.meta, files)


def newest(folder: str | Path, say: Callable[[str], None] | None = None) -> Checkpoint | None:
    """The newest checkpoint under `folder` that verifies, for the process that holds the run's lock; None without any.

    A damaged one is moved aside with one printed line; leftovers of killed processes are removed. A checkpoint of a
    newer seqloom is left alone, and raises ValueError. Readers without the lock use `peek`.
    """
    folder, say = Path(folder), say or _to_stderr
    if not folder.is_dir():
        return None
    steps.repair(folder)
    for path in reversed(steps.whole(folder).values()):
        try:
            return load(path)
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
    reserved = {about.NAME, manifest.NAME, *(f"{group}.safetensors" for group in groups)}
    for name in (*groups, *files):
        if not re.fullmatch(manifest.PLAIN, name) or (name in files and name in reserved):
            raise ValueError(f"a checkpoint cannot hold a file named {name!r}: choose another name")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
