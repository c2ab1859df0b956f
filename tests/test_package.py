"""The wheel holds the files that the program needs besides Python files, and works from any folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "seqloom"
CARRIED = (".c", ".h", ".yaml", ".json", ".jinja", ".css", ".js")
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
        f"seqloom/{path.relative_to(SOURCES).as_posix()}"
        for path in SOURCES.rglob("*")
        if path.suffix in CARRIED and "__pycache__" not in path.parts
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert expected
    assert expected - held == set()
    assert "seqloom/py.typed" in held


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
