"""The names in a folder of checkpoints, and the moves between them; every move is one rename.

step_00001234             a whole checkpoint
replaced-step_00001234    the whole checkpoint that a second save of the same step is about to replace
damaged-step_00001234     one that did not verify, kept for inspection
*.tmp-PID                 being written, or being deleted, by that process
"""

import os
import re
from pathlib import Path

from seqloom.core.files import sync
from seqloom.runs.durable import discard, remove_stale

_STEP = re.compile(r"step_(\d{8,})")


def name_of(step: int) -> str:
    """The name of the checkpoint of a step."""
    return f"step_{step:08d}"


def temporary_name(step: int, pid: int) -> str:
    """The name under which a process writes the checkpoint of a step."""
    return f"{name_of(step)}.tmp-{pid}"


def step_of(path: Path) -> int | None:
    """The step in a name; None when it is not the name of a whole checkpoint."""
    match = _STEP.fullmatch(path.name)
    return int(match[1]) if match and path.name == name_of(int(match[1])) else None


def whole(folder: Path) -> dict[int, Path]:
    """The complete checkpoints in `folder` by step, the oldest first; {} for a missing folder.

    ValueError where the folder or one of them is a link: a run's files lie in its own folder.
    """
    entries = ((step_of(path), path) for path in folder.iterdir()) if folder.is_dir() else ()
    steps = dict(sorted((step, path) for step, path in entries if step is not None))
    for path in (folder, *steps.values()):
        if path.is_symlink():
            raise ValueError(f"{path} is a link: put the checkpoints themselves there")
    return steps


def half_replaced(folder: Path) -> dict[int, Path]:
    """The checkpoints that were being replaced and whose replacement does not exist yet, by step."""
    return {step: path for step, path in _replaced_folders(folder).items() if not (folder / name_of(step)).exists()}


def newest_first(folder: Path) -> list[Path]:
    """The whole checkpoints in `folder`, including half-replaced ones, the newest first."""
    folders = {**half_replaced(folder), **whole(folder)}
    return [path for _, path in sorted(folders.items(), reverse=True)]


def put(temporary: Path, target: Path) -> None:
    """Gives a whole checkpoint its final name. One that has the name already is kept until the new one is there."""
    replaced = target.with_name(f"replaced-{target.name}")
    if target.exists():
        if replaced.exists():
            delete([replaced])
        os.rename(target, replaced)
    try:
        os.rename(temporary, target)
    except OSError:
        if replaced.exists():
            os.rename(replaced, target)
        raise
    sync(target.parent)
    if replaced.exists():
        delete([replaced])


def repair(folder: Path) -> None:
    """Cleans up after a killed process: a half-replaced checkpoint gets its name back, leftovers are removed."""
    for step, path in half_replaced(folder).items():
        os.rename(path, folder / name_of(step))
        sync(folder)
    delete(list(_replaced_folders(folder).values()))
    remove_stale(folder)


def quarantine(path: Path) -> Path:
    """Moves a damaged checkpoint aside, and returns its new path."""
    damaged = _unused_path(path.with_name(f"damaged-{path.name}"))
    os.rename(path, damaged)
    sync(path.parent)
    return damaged


def delete(paths: list[Path]) -> None:
    """Deletes checkpoints; each loses its name first, so that a half-deleted one is never taken for a whole one."""
    temporaries = [_unused_path(path.with_name(f"deleted-{path.name}"), f".tmp-{os.getpid()}") for path in paths]
    for path, temporary in zip(paths, temporaries, strict=True):
        os.rename(path, temporary)
    for parent in {path.parent for path in paths}:
        sync(parent)
    for temporary in temporaries:
        discard(temporary)


def _replaced_folders(folder: Path) -> dict[int, Path]:
    """The folders named `replaced-step_…`, by step."""
    entries = ((step_of(Path(path.name.removeprefix("replaced-"))), path) for path in folder.glob("replaced-step_*"))
    return {step: path for step, path in entries if step is not None}


def _unused_path(path: Path, suffix: str = "") -> Path:
    """`path` with the suffix, or, where that exists, with -2, -3, … before it."""
    numbers = ("", *(f"-{n}" for n in range(2, 10_000)))
    candidates = (path.with_name(f"{path.name}{number}{suffix}") for number in numbers)
    return next(candidate for candidate in candidates if not candidate.exists())
