"""A copy of the tree, and tests that run in it, with bounds of time and memory; their processes end with them."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.mutants.plan import ROOT

LEFT = shutil.ignore_patterns(".*", "__pycache__", "runs", "site", "build", "dist", "*.egg-info")
MEMORY = 24 * 2**30
"""bytes of addresses that a test process may ask for"""
NO_TESTS = 5
"""pytest's exit status where it found none"""


def copied(to: Path) -> Path:
    """The tree without what was built, installed or trained in it. `src/seqloom/runs` and `tests/runs` belong to it."""

    def left(folder: str, names: list[str]) -> set[str]:
        kept = {"runs"} if Path(folder) != ROOT else set()
        return LEFT(folder, names) - kept - {".ci"}

    shutil.copytree(ROOT, to, ignore=left)
    result = _run(to, ["-c", "import seqloom; print(seqloom.__file__)"], 120)
    assert result.stdout.strip() == str(to / "src" / "seqloom" / "__init__.py"), (
        f"not the copy is imported: {result.stdout}"
    )
    return to


def passes(tree: Path, arguments: list[str], limit: float) -> bool:
    """Whether pytest passes there within so many seconds; AssertionError where it finds no test."""
    try:
        status = _run(tree, ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments], limit).returncode
    except subprocess.TimeoutExpired:
        return False
    assert status != NO_TESTS, f"there are no tests in {' '.join(arguments)}"
    return status == 0


def _run(tree: Path, arguments: list[str], limit: float) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or pytest would rewrite every test file in every run
    with subprocess.Popen(
        [sys.executable, *arguments],
        **{"cwd": tree, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        start_new_session=True,
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            out, _ = process.communicate(timeout=limit)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and whatever the tests started
    return subprocess.CompletedProcess(arguments, process.returncode, out)
