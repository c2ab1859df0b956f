"""The code of the layers that a run names: kept in its folder, and imported only where the user has named it before.

    RUN/code/my.py                     a copy of each file, as it was when the run began or the model was saved
    keep_sources(run.folder, config)   writes them, and remembers that this user has named these files
    with known_code(run.folder):       settings that others may have written are read: other code is an error

A run is data, and whoever wrote it must not run code here. What is installed, was imported in this process, or was
named by this user in a training or a model that he saved is his own. `SEQLOOM_RUN_CODE=1` says that he has read the
rest: then also the copy in the run stands for a file that is not there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel

from seqloom.core.named_object import FILE, MAIN, guard_names, is_imported
from seqloom.data import cache
from seqloom.mixers.layer_kind import LayerConfig
from seqloom.runs import module_source, notebook_source
from seqloom.runs.code import parts
from seqloom.runs.durable import replace, replace_text
from seqloom.runs.layout import make_folder, make_inside

FOLDER = "code"
NOTEBOOK = "notebook.py"
ALLOW = "SEQLOOM_RUN_CODE"


def keep_sources(folder: Path, settings: BaseModel) -> None:
    """Writes the sources of the layers that the settings name into the run's folder, once; those of packages not.

    They are files as they are on the disk, and of a notebook the definitions that the layer names.
    """
    for part in parts(settings):
        if not isinstance(part, LayerConfig):
            continue
        layer = part.layer_class
        if layer.__module__ == MAIN:
            with suppress(ValueError):  # typed at a prompt, where no source is kept
                _write_once(folder, NOTEBOOK, notebook_source.source_text(layer).encode())
        elif not module_source.is_installed(layer.__module__):
            for path in module_source.source_files(layer.__module__):
                _write_once(folder, path.name, path.read_bytes())
                _remember(path)


@contextmanager
def known_code(folder: Path | None = None) -> Iterator[None]:
    """Inside, only code that the user has named before is imported; `folder` is that of a run with copies."""
    with guard_names(partial(_require_known, folder)):
        yield


def is_copy(folder: Path, name: str) -> bool:
    """Whether the class of a notebook or script is here as the run's own copy, whose digest is that of a file."""
    return name.startswith(f"{MAIN}:") and not is_imported(name) and (folder / FOLDER / NOTEBOOK).is_file()


def _require_known(folder: Path | None, name: str) -> Path | None:
    """The copy that stands for a file that is not there. ValueError for code that the user has not named."""
    if is_imported(name):
        return None
    place = name.rpartition(":")[0]
    allowed = os.environ.get(ALLOW) == "1"
    path = Path(place) if place.endswith(FILE) else None if place == MAIN else module_source.file_of(place)
    if path is not None and path.is_file():
        is_installed = not place.endswith(FILE) and module_source.is_installed(place)
        if is_installed or allowed or _is_remembered(path):
            return None
        raise ValueError(f"{name} is code that you have not named here: read {path}; to run it, set {ALLOW}=1")
    copy = None if folder is None else folder / FOLDER / _copy_name(place)
    if copy is None or not copy.is_file():
        raise ValueError(f"{name} is not here: put its file back where it was, or install its package")
    if not allowed:
        raise ValueError(f"{name} is not here: put its file back, or read the copy {copy}; to run it, set {ALLOW}=1")
    return copy


def _copy_name(place: str) -> str:
    """The name of the copy of a file or a module."""
    if place == MAIN:
        return NOTEBOOK
    return Path(place).name if place.endswith(FILE) else f"{place.rpartition('.')[2]}.py"


def _write_once(folder: Path, name: str, data: bytes) -> None:
    path = make_inside(folder, FOLDER) / name
    if not path.exists():
        replace(path, data)


def _mark_of(path: Path) -> Path:
    """The file in the cache that says that this user has named the code at this path."""
    return cache.folder() / FOLDER / sha256(str(path.resolve()).encode()).hexdigest()


def _remember(path: Path) -> None:
    mark = _mark_of(path)
    if not mark.exists():
        make_folder(mark.parent)
        replace_text(mark, f"{path.resolve()}\n")


def _is_remembered(path: Path) -> bool:
    return _mark_of(path).is_file()
