"""Where the queue runs: the card, the versions on it, and the code that it runs, of which every row tells.

Without `.git` the code's commit is named by `--commit`; a digest of src/, which `pack` wrote beside what it packed,
says whether the code is that commit's.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import torch

from seqloom.analysis.history import untraceable
from seqloom.analysis.origin import commit, name_commit

SOURCE = Path(__file__).parents[2]
"""the folder that holds the packages `seqloom` and `seqloom_studies`"""
OURS = ("seqloom", "seqloom_studies")
STAMP = "stamp.json"
VERSIONS = ("torch", "triton", "fla-core", "flash-linear-attention")


@final
@dataclass(frozen=True)
class Card:
    """The device of a call."""

    device: str
    """cuda or cpu"""
    name: str
    """as its driver names it"""
    versions: dict[str, str | None]
    """of the packages whose kernels run; None for one that is not there"""

    @property
    def settings(self) -> dict[str, Any]:
        """It as plain JSON."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """A digest of it in the name of a folder."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """Its name in the name of a file."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())


def card_here(device: str) -> Card:
    """The card of this machine. ValueError, in one line, where torch cannot use one."""
    versions = {name: _version(name) for name in VERSIONS}
    if device == "cpu":
        return Card("cpu", "CPU", versions)
    try:
        torch.cuda.init()
        torch.empty(1, device="cuda")
    except (RuntimeError, AssertionError) as error:  # no card, an old driver, or torch without CUDA
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"torch {torch.__version__} can use no CUDA GPU here ({reason}): run the queue where one is; "
            "`--device cpu --tiny` checks it without one"
        ) from None
    return Card("cuda", torch.cuda.get_device_name(), versions)


def require_commit(named: str | None, packs: Path, *, tries: bool = False) -> None:
    """Makes `named` the commit of the rows, if this is that commit's code.

    ValueError where none is named and there is no `.git`, or, but for `tries`, one whose tree has changes; and where
    src/ has changed since it was packed.
    """
    if named is None:
        if commit().startswith("seqloom") and not tries:
            raise ValueError("there is no .git here: name the commit of this code with --commit, as run.sh does")
        if not tries and (reasons := untraceable([commit()])):
            raise ValueError(f"the rows would be of commit {reasons[commit()]}: commit on main first, or try --tiny")
        return
    stamps = sorted(packs.rglob(STAMP))
    if not stamps:
        raise ValueError(
            f"no {STAMP} in {packs}: pack with `python -m seqloom_studies.gpu.pack`, or leave out --commit"
        )
    stamp = json.loads(stamps[-1].read_text())
    if stamp["commit"] != named:
        raise ValueError(f"{stamps[-1]} is of commit {stamp['commit']}, not {named}: pack again")
    if stamp["source"] != source_digest():
        raise ValueError(f"src/ is not that of commit {named}: its digest is not the one in {stamps[-1]}; pack again")
    name_commit(named, stamp["tag"])


@cache
def source_digest() -> str:
    """The digest of all files of src/ that are code or that code reads."""
    return _digest(_files(SOURCE / name for name in OURS))


@cache
def code_digest(modules: tuple[str, ...]) -> str:
    """The digest of these modules and of all of ours that they import, with the other files in their folders.

    Imports inside of functions count too. Mixers are imported by name and so count only where they are named.
    """
    folders = {path.parent for path in map(_path, _closure(modules))}
    others = (path for folder in folders for path in folder.iterdir() if path.suffix not in (".py", ".pyc", ".md"))
    return _digest([*map(_path, _closure(modules)), *(path for path in others if path.is_file())])


def _closure(modules: Iterable[str]) -> list[str]:
    """The modules and what they import of ours, each once, sorted. ValueError for one that is not there."""
    found: set[str] = set()
    left = list(modules)
    missing = [name for name in left if not _path(name).is_file()]
    if missing:
        raise ValueError(f"there is no module {missing[0]}")
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [other for other in _imports(_path(name)) if other not in found]
    return sorted(found)


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Our modules that a file imports, and the packages that they lie in."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    inside = [name for name in names if name.partition(".")[0] in OURS]
    packages = [".".join(name.split(".")[:count]) for name in inside for count in range(1, name.count(".") + 2)]
    return tuple(dict.fromkeys(name for name in packages if _path(name).is_file()))


def _path(module: str) -> Path:
    """The file of a module, or of a package."""
    place = SOURCE.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so"))


def _digest(paths: Iterable[Path]) -> str:
    """A digest of the names and contents of files, whatever their order."""
    hashed = hashlib.sha256()
    for path in sorted(paths):
        hashed.update(path.relative_to(SOURCE).as_posix().encode() + b"\0")
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
