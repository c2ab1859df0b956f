"""The wheel holds the files that the program needs besides Python files, and works from any folder.

The sources that are published make the same wheel, and hold no tests, which need the whole repository. README's links
are absolute on the page of a package index, once the repository has an address.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from docs.making import extras

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src"
PACKAGES = ("seqloom", "seqloom_studies")
CARRIED = (".c", ".h", ".yaml", ".json", ".jinja", ".css", ".js", ".md", ".safetensors")
"""suffixes of the files that are read at run time"""
ADDRESS = "https://example.org/some/seqloom"
METADATA = "import setuptools.build_meta as build; build.prepare_metadata_for_build_wheel('out')"


def links(markdown: str) -> list[str]:
    """The targets of all links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S))


@pytest.fixture(scope="module")
def setup_file() -> Any:
    spec = importlib.util.spec_from_file_location("setup_file", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    assert {"README.md", "LICENSE", "pyproject.toml", "setup.py", "CHANGELOG.md", "CITATION.cff"} <= held
    assert not [name for name in held if name.startswith("tests")]


def test_links_of_readme_are_absolute_once_there_is_an_address(setup_file: Any) -> None:
    text = "[a](docs/a.md#b) ![c](d.svg) [e](https://f.org) [g](#h) [`i`](j.md)"
    project = {"version": "1.2.3", "urls": {"Repository": f"{ADDRESS}/"}}
    assert setup_file.published(text, project) == (
        f"[a]({ADDRESS}/blob/v1.2.3/docs/a.md#b) ![c]({ADDRESS}/raw/v1.2.3/d.svg) [e](https://f.org)"
        f" [g]({ADDRESS}/blob/v1.2.3/README.md#h)"
        f" [`i`]({ADDRESS}/blob/v1.2.3/j.md)"
    )
    for urls in ({}, {"urls": {"Paper": "https://example.org"}}):
        assert setup_file.published(text, {"version": "1.2.3", **urls}) == text


@pytest.mark.slow
@pytest.mark.parametrize("address", ["", ADDRESS])
def test_readme_on_the_page_of_a_package_index(tmp_path: Path, address: str) -> None:
    for name in ("setup.py", "README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    project = re.sub(r"^Repository = .*\n", "", (ROOT / "pyproject.toml").read_text(), flags=re.M)
    line = f'Repository = "{address}"\n' if address else ""
    (tmp_path / "pyproject.toml").write_text(project.replace("\nPaper = ", f"\n{line}Paper = "))
    (tmp_path / "src/seqloom").mkdir(parents=True)
    (tmp_path / "src/seqloom/__init__.py").touch()
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-c", METADATA], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    (path,) = tmp_path.glob("out/*/METADATA")
    head, _, shown = path.read_text(encoding="utf-8").partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head
    assert (f"Project-URL: Repository, {ADDRESS}" in head) == bool(address)
    own = links((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links(shown)) == len(own) > 20
    if not address:
        assert links(shown) == own
        return
    assert [link for link in links(shown) if not link.startswith("https://")] == []
    assert [link for link in links(shown) if "/raw/" in link] == [
        f"{ADDRESS}/raw/v{tomllib.loads(project)['project']['version']}/docs/images/short.svg"
    ]


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


@pytest.mark.slow
def test_the_wheel_alone_compares_and_names_the_extra_of_its_charts(wheel: Path, tmp_path: Path) -> None:
    target, out = tmp_path / "site", tmp_path / "compare"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    )
    link_dependencies(target)
    own = {"PYTHONPATH": str(target), "SEQLOOM_CACHE": str(tmp_path / "cache"), "SEQLOOM_NATIVE": "0"}
    alone = (sys.executable, "-S")  # without the environment's other packages
    found = "import importlib.util as look; print(*map(look.find_spec, ('altair', 'vl_convert', 'pytest')))"
    assert run(*alone, "-c", found, **own).split() == ["None"] * 3
    sizes = ["--set", "training.batches=2", "--set", "data.vocab=300"]
    data = ["--preset", "tiny", "--data", "stories:60", "--out", str(out)]
    said = run(*alone, "-m", "seqloom", "compare", "identity", "he", *sizes, *data, **own)
    assert (out / "report.html").is_file()
    *_, last = said.splitlines()
    assert last == f"its charts need an extra: pip install 'seqloom[report]', then seqloom report {out}"


def link_dependencies(folder: Path) -> None:
    """Links the packages that seqloom alone needs into a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in extras.packages(project["dependencies"], {}):
        package = extras.distribution(name)
        tops = {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}
        for top in tops - {path.name for path in folder.iterdir()}:
            (folder / top).symlink_to(Path(str(package.locate_file(top))))
