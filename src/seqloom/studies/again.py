"""Cells whose mixer was edited, and cells that are to be repeated: `--again`.

A training whose mixer has other code than when it began can neither go on nor keep its rows: `require_same_code` raises
an error that names the mixer. `choose_cells` finds the cells of the mixers that the user wants repeated, and `forget`
removes what these cells have saved. A measurement needs neither: with other code it is another cell, and is repeated.
"""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from seqloom.core.config import suggestion
from seqloom.runs.code import changed_kinds, changed_words, kinds, of_run
from seqloom.runs.layout import Run
from seqloom.runs.lock import lock
from seqloom.studies.candidate import parse_candidate
from seqloom.studies.results import ROWS, saved_code
from seqloom.studies.study import Cell, RunCell


def edited_kinds(cell: Cell, folder: Path) -> list[str]:
    """The kinds whose code has changed since the training in `folder`, ended or not; none for a measurement."""
    if not isinstance(cell, RunCell):
        return []
    saved = saved_code(folder)
    return changed_kinds(of_run(Run(folder)) if saved is None else saved, cell.code)


def require_same_code(cells: Sequence[Cell], out: Path, repeats: bool) -> None:
    """ValueError where a training was done or begun with other code; `repeats` says whether the command has --again."""
    names = sorted({kind for cell in cells for kind in edited_kinds(cell, out / cell.name)})
    if names:
        asked = " ".join(f"--again {name}" for name in names)
        hint = f"`{asked}`, or another --out" if repeats else "choose another --out"
        raise ValueError(f"{changed_words(names)}: {hint}")


def choose_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """The cells of the named contenders, or of the contenders with a mixer of a named kind.

    ValueError for a name that is none of these.
    """
    by_name: dict[str, set[str]] = {}
    for cell in cells:
        if cell.about is not None:
            inside = kinds(cell.config) if isinstance(cell, RunCell) else set()
            for name in {cell.about, *inside}:
                by_name.setdefault(name, set()).add(cell.about)
    about: set[str] = set()
    for name in names:
        known = name if name in by_name else parse_candidate(name).name
        if known not in by_name:
            raise ValueError(f"--again: {name!r} is not compared here; {suggestion(name, by_name)}")
        about |= by_name[known]
    return [cell for cell in cells if cell.about in about]


def forget(cells: Collection[Cell], out: Path) -> None:
    """Removes what cells have saved, except for a training that has begun with the code that is here.

    Such a training goes on, so that an interrupted repetition is continued. ValueError where a process uses the folder.
    """
    for cell in cells:
        folder = out / cell.name
        if (folder / ROWS).exists() or edited_kinds(cell, folder):
            with lock(folder):
                _empty(folder)


def _empty(folder: Path) -> None:
    """Removes all in a folder but its lock; the settings last, without which the rest would belong to nothing."""
    last = Run(folder).config.name
    for entry in sorted(folder.iterdir(), key=lambda path: (path.name == last, path.name != ROWS)):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()
