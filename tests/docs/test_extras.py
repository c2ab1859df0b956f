"""The megabytes of the extras: which packages are counted, how large they are, and what is said of missing ones."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from docs.making import extras
from docs.making.extras import ROOT


def install(folder: Path, name: str, needs: tuple[str, ...] = (), blocks: int = 1) -> None:
    """A package of one file, with what it needs, as if pip had installed it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (folder / f"{name}.bin").write_bytes(os.urandom(blocks * 4096))
    (info / "RECORD").write_text(f"{name}.bin,,\n{name}-1.0.dist-info/METADATA,,\nmissing,,\n")
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {each}" for each in needs)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "zz_one", ("zz-two>=1", 'zz-three; extra == "more"', 'zz-none; python_version < "3"'))
    install(tmp_path, "zz_two", ("zz-one",), blocks=500)
    install(tmp_path, "zz_three", blocks=1000)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["zz_one<2"], {"zz-one", "zz-two"}),
        (["zz.one[more]"], {"zz-one", "zz-two", "zz-three"}),
        (["zz-one", "zz-one[more]"], {"zz-one", "zz-two", "zz-three"}),
        (["seqloom[a,b]"], {"zz-one", "zz-two", "zz-three"}),
        (["zz-none; python_version < '3'"], set()),
        ([], set()),
    ],
)
def test_packages_of_requirements(asked: list[str], expected: set[str]) -> None:
    assert extras.packages(asked, {"a": ["zz-two"], "b": ["zz-three"]}) == expected


def test_an_extra_has_what_seqloom_alone_does_not() -> None:
    of = {"a": ["zz-one[more]"], "b": ["zz-one", "zz-missing"]}
    assert extras.size("a", of, set()) == str(round(extras.megabytes(["zz-one", "zz-two", "zz-three"])))
    assert extras.size("a", of, {"zz-one", "zz-two"}) == "4"
    assert extras.size("b", of, set()) == "- (zz-missing is not installed)"


@pytest.mark.slow
def test_the_table_has_all_extras() -> None:
    table, last = extras.lines()
    listed = re.findall(r"^\| (\w+) \| (?:\d+|- \(\S+ is not installed\)) \|$", table, flags=re.M)
    assert listed == list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert last.startswith("seqloom alone needs ")
