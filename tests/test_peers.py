"""Comparisons with public code cannot be skipped in CI, which installs it."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest

ROOT = Path(__file__).parent.parent
ABSENT = "could not import 'transformers': No module named 'transformers'"


@pytest.mark.parametrize(
    ("required", "file", "why", "fails"),
    [
        (True, "test_peer_x.py", ABSENT, True),
        (True, "test_peer_x.py", "no compiler", True),
        (True, "test_x.py", ABSENT, True),
        (True, "test_x.py", "no compiler", False),
        (False, "test_peer_x.py", ABSENT, False),
        (False, "test_x.py", ABSENT, False),
    ],
)
@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        (conftest.pytest_make_collect_report, pytest.CollectReport),
        (conftest.pytest_runtest_makereport, pytest.TestReport),
    ],
)
def test_a_comparison_that_is_skipped_fails_where_it_is_required(
    required: bool, file: str, why: str, fails: bool, hook: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "REQUIRE_PEERS", required)
    report = kind.__new__(kind)
    report.outcome, report.longrepr = "skipped", (file, 3, why)
    running = hook(SimpleNamespace(path=ROOT / "tests" / file, nodeid=f"tests/{file}"))
    next(running)
    with pytest.raises(StopIteration) as ended:
        running.send(report)
    result = ended.value.value
    assert result.failed == fails
    assert (f"compares nothing: {why}" in str(result.longrepr)) == fails


@pytest.mark.parametrize("target", ["test", "test-long"])
def test_ci_requires_them_and_make_then_installs_them(target: str) -> None:
    assert f"SEQLOOM_REQUIRE_PEERS=1 make {target}\n" in (ROOT / ".ci" / "run").read_text()
    for required in ("0", "1"):
        words = ["make", "--dry-run", "--always-make", target, f"SEQLOOM_REQUIRE_PEERS={required}"]
        planned = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=20).stdout
        assert ("[dev,peers,kernels]" in planned) == ("xlstm==" in planned) == (required == "1")
