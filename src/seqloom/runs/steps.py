"""The names in a folder of checkpoints, and the moves between them; every move is one rename.

step_00001234             a whole checkpoint
replaced-step_00001234    the whole checkpoint that a second save of the same step is about to replace
damaged-step_00001234     one that did not verify, kept for inspection
*.tmp-PID                 being written, or being deleted, by that process
"""

import os
import re
from pathlib import Path

from seqloom.runs.durable import discard, remove_stale, sync

_STEP = re.compile(r"step_(\d{8,})")


def name_of(step: int) -> str:
    """The name of the checkpoint of a step."""
    return f"step_{step:08d}"


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
    return {step: path for step, path in _asides(folder).items() if not (folder / name_of(step)).exists()}


def newest_first(folder: Path) -> list[Path]:
    """The whole checkpoints in `folder`, including half-replaced ones, the newest first."""
    folders = {**half_replaced(folder), **whole(folder)}
    return [path for _, path in sorted(folders.items(), reverse=True)]


def put(temporary: Path, target: Path) -> None:
    """Gives a whole checkpoint its final name. One that has the name already is kept until the new one is there."""
    aside = target.with_name(f"replaced-{target.name}")
    if target.exists():
        if aside.exists():
            delete([aside])
        os.rename(target, aside)
    try:
        os.rename(temporary, target)
    except OSError:
        if aside.exists():
            os.rename(aside, target)
        raise
    sync(target.parent)
    if aside.exists():
        delete([aside])


def repair(folder: Path) -> None:
    """Cleans up after a killed process: a half-replaced checkpoint gets its name back, leftovers are removed."""
    for step, path in half_replaced(folder).items():
        os.rename(path, folder / name_of(step))
        sync(folder)
    delete(list(_asides(folder).values()))
    remove_stale(folder)


def quarantine(path: Path) -> Path:
    """Moves a damaged checkpoint aside, and returns its new path."""
    aside = _unused(path.with_name(f"damaged-{path.name}"))
    os.rename(path, aside)
    sync(path.parent)
    return aside


def delete(paths: list[Path]) -> None:
    """Deletes checkpoints; each loses its name first, so that a half-deleted one is never taken for a whole one."""
    doomed = [_unused(path.with_name(f"deleted-{path.name}"), f".tmp-{os.getpid()}") for path in paths]
    for path, nameless in zip(paths, doomed, strict=True):
        os.rename(path, nameless)
    for parent in {path.parent for path in paths}:
        sync(parent)
    for nameless in doomed:
        discard(nameless)


def _asides(folder: Path) -> dict[int, Path]:
    entries = ((step_of(Path(path.name.removeprefix("replaced-"))), path) for path in folder.glob("replaced-step_*"))
    return {step: path for step, path in entries if step is not None}


def _unused(path: Path, suffix: str = "") -> Path:
    tries = (path.with_name(path.name + more + suffix) for more in ("", *(f"-{n}" for n in range(2, 10_000))))
    return next(name for name in tries if not name.exists())
