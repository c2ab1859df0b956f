"""The megabytes that each extra adds to seqloom alone, counted in the environment that runs this.

    python -m docs.making.extras          a line for each extra of pyproject.toml

An extra's packages are those that it names and all that these need, less those that seqloom alone needs. A package has
the blocks on disk of the files that its installation recorded.
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from docs.making.command import exit_code
from seqloom.core.table import markdown

ROOT = Path(__file__).parents[2]
OWN = "seqloom"
BLOCK = 512
"""bytes of a block, as `stat` counts them"""


class MissingPackage(ValueError):
    """A package that an extra needs and that is not installed."""


def lines() -> Iterator[str]:
    """The table of all extras, and a line for seqloom alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    alone = packages(project["dependencies"], extras)
    yield markdown(("extra", "MB"), [(extra, size(extra, extras, alone)) for extra in extras])
    yield f"{OWN} alone needs {megabytes(alone)} MB, {megabytes({'torch'})} of them torch"


def size(extra: str, extras: dict[str, list[str]], alone: set[str]) -> str:
    """The megabytes of an extra, or what is not installed of it."""
    try:
        return str(megabytes(packages(extras[extra], extras) - alone))
    except MissingPackage as error:
        return f"- ({error})"


def packages(requirements: Iterable[str], extras: dict[str, list[str]]) -> set[str]:
    """The normalized names of the packages of requirements, and of all that these need."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        asked = waiting.pop()
        name = re.sub(r"[-_.]+", "-", asked.name).lower()
        key = (name, frozenset(asked.extras))
        if key in seen or not applies(asked, ()):
            continue
        seen.add(key)
        if name == OWN:
            waiting += [Requirement(text) for extra in asked.extras for text in extras[extra]]
            continue
        found.add(name)
        needed = [Requirement(text) for text in distribution(name).requires or []]
        waiting += [unconditional(each) for each in needed if applies(each, asked.extras)]
    return found


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether a requirement is one here, for a package with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def unconditional(requirement: Requirement) -> Requirement:
    """The requirement without its condition, which has been asked."""
    requirement.marker = None
    return requirement


def distribution(name: str) -> metadata.Distribution:
    """An installed package; MissingPackage where it is not."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise MissingPackage(f"{name} is not installed") from None


def megabytes(names: Iterable[str]) -> int:
    """The 10⁶ bytes on disk of packages."""
    paths = {os.fspath(file.locate()) for name in names for file in distribution(name).files or []}
    return round(sum(os.stat(path).st_blocks * BLOCK for path in paths if os.path.isfile(path)) / 1e6)


if __name__ == "__main__":
    sys.exit(exit_code(lines))
