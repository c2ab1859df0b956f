"""The wheel holds the files that the program needs besides Python files, and works from any folder.

The sources that are published make the same wheel, and hold no tests, which need the whole repository.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
PACKAGES = ("seqloom", "seqloom_studies")
CARRIED = (".c", ".h", ".yaml", ".json", ".jinja", ".css", ".js", ".md", ".safetensors")
"""suffixes of the files that are read at run time"""


def run(*words: str, **environment: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd="/", env={**os.environ, **environment}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT))
    (path,) = out.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_every_file_that_is_read_at_run_time(wheel: Path) -> None:
    expected = {
        path.relative_to(SOURCES).as_posix()
        for package in PACKAGES
        for path in (SOURCES / package).rglob("*")
        if path.suffix in CARRIED and "__pycache__" not in path.parts
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert expected
    assert expected - held == set()
    assert {f"{package}/py.typed" for package in PACKAGES} <= held


@pytest.mark.slow
def test_the_published_sources_hold_what_is_installed_and_no_tests(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT))
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    installed = {f"src/{name}" for name in zipfile.ZipFile(wheel).namelist() if name.startswith("seqloom/")}
    assert installed - held == set()
    assert {"README.md", "LICENSE", "pyproject.toml"} <= held
    assert not [name for name in held if name.startswith("tests")]


def test_every_package_that_is_asked_for_has_a_pinned_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(name for names in project["optional-dependencies"].values() for name in names)]
    names = {_name(requirement) for requirement in asked} - {"seqloom", "setuptools"}
    pinned = {_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names - pinned == set()


def _name(requirement: str) -> str:
    """The normalized name of the package of a requirement."""
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@pytest.mark.slow
def test_the_wheel_works_without_the_sources(wheel: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "site")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, str(wheel))
    own = {"PYTHONPATH": target, "SEQLOOM_CACHE": str(tmp_path / "cache")}
    assert run(sys.executable, "-c", "import seqloom; print(seqloom.__file__)", **own).startswith(target)
    assert "attention" in run(sys.executable, "-m", "seqloom", "list", **own)
    out = str(tmp_path / "run")
    changes = [word for change in ("training.batches=2", "data.vocab=300") for word in ("--set", change)]
    assert "batches" in run(
        sys.executable, "-m", "seqloom", "train", "tiny", "--data", "stories:30", *changes, "--out", out, **own
    )
