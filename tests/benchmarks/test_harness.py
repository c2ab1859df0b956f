"""Nothing is timed if a test fails; ratios are within one round; rows have their origin and the load of the cores."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.analysis.measure import Timing
from tests.benchmarks.conftest import FOLDER

Script = Callable[[str], Any]
PEERS = ("transformers", "mambapy", "einops", "linformer", "routing_transformer", "kenlm")
FILES = {
    "green": "def test_right():\n    assert True\n",
    "red": "def test_right():\n    assert True\n\n\ndef test_wrong():\n    assert 1 == 2\n",
    "broken": "import nothing_of_that_name\n",
    "empty": "",
}
TIMED = """
import sys
sys.path.insert(0, {folder!r})
import harness
harness.require_traceable = lambda commits: None
harness.RESULTS = __import__("pathlib").Path({out!r})
harness.gate({test!r})
harness.append("rows", [harness.compare({{"a": int, "b": list}}, peer="a", repeats=2)])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILES["red"], "test_it.py::test_wrong"),
        pytest.param(FILES["broken"], "ERROR", marks=pytest.mark.slow),
        pytest.param(FILES["empty"], "no tests ran", marks=pytest.mark.slow),
        pytest.param(None, "test_it.py", marks=pytest.mark.slow),
    ],
    ids=["red", "broken", "empty", "missing"],
)
def test_a_failing_test_ends_the_benchmark(
    script: Script, tmp_path: Path, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test_it.py"
    if text is not None:
        test.write_text(text)
    with pytest.raises(SystemExit) as ended:
        script("harness").gate(str(test))
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (1, "")
    assert message in err
    assert err.endswith("\nred tests, no time\n")


def timed(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A benchmark of its own, gated by a test file that holds `text`."""
    test = tmp_path / "test_it.py"
    test.write_text(text)
    folder = str(Path(__file__).parents[2] / "benchmarks")
    code = TIMED.format(folder=folder, out=str(tmp_path / "results"), test=str(test))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_with_a_failing_test_there_is_no_time_and_no_row(tmp_path: Path) -> None:
    done = timed(tmp_path, FILES["red"])
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_with_passing_tests_there_is_a_row(tmp_path: Path) -> None:
    done = timed(tmp_path, FILES["green"])
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "results" / "rows.jsonl").read_text().splitlines()
    row = json.loads(line)
    printed = json.loads(done.stdout)
    assert printed.items() <= row.items()
    assert set(row) - set(printed) - {"tag"} == {"date", "commit", "command", "machine"}
    assert row["command"] == "python benchmarks/-c"
    assert (row["peer"], row["repeats"], row["loaded"] in (True, False, None)) == ("a", 2, True)
    assert set(row["ms_median_quartiles"]) == {"a", "b"}


def test_rows_of_a_tree_with_changes_are_refused_before_anything_is_timed(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harness = script("harness")
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")

    def refuse(commits: list[str]) -> None:
        raise ValueError("the rows are of commit abc with changes")

    monkeypatch.setattr(harness, "require_traceable", refuse)
    with pytest.raises(SystemExit, match="the rows are of commit abc with changes"):
        harness.gate(__file__)
    with pytest.raises(ValueError, match="with changes"):
        harness.append("rows", [{"ms": 1}])
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr(harness, "SCRATCH", tmp_path / "tries.jsonl")
    harness.append("rows", [{"ms": 1}])
    assert json.loads((tmp_path / "tries.jsonl").read_text())["ms"] == 1


def test_scratch_is_taken_out_of_the_command_line(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_SCRATCH", "")
    monkeypatch.delenv("SEQLOOM_SCRATCH")
    monkeypatch.setattr(sys, "argv", ["x.py", "--rounds", "3", "--scratch", "tries.jsonl", "he"])
    harness = script("harness")
    assert sys.argv == ["x.py", "--rounds", "3", "he"]
    assert Path("tries.jsonl").absolute() == harness.SCRATCH
    assert os.environ["SEQLOOM_SCRATCH"] == str(harness.SCRATCH)


def test_ratios_pair_the_rounds(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slows down fourfold: the ratio of each round is 2, and that of the medians would be otherwise."""
    harness = script("harness")
    times = {"slow": Timing((2.0, 4.0, 9.0)), "peer": Timing((1.0, 2.0, 4.0))}
    monkeypatch.setattr(harness, "race", lambda runs, repeats, warm, after: times)
    monkeypatch.setattr(harness, "watch", lambda: lambda: 0.0)
    result = harness.compare({"slow": int, "peer": int}, peer="peer", repeats=3)
    assert result["ratio_median_quartiles"] == {"slow": [2.0, 2.0, 2.125], "peer": [1.0, 1.0, 1.0]}
    assert result["ms_median_quartiles"]["slow"] == [4000.0, 3000.0, 6500.0]


@pytest.mark.parametrize(("share", "marked", "lines"), [(0.4, True, 1), (0.05, False, 0), (None, None, 0)])
def test_a_loaded_machine_is_reported_and_marked(
    script: Script,
    share: float | None,
    marked: bool | None,
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    harness = script("harness")
    monkeypatch.setattr(harness, "watch", lambda: lambda: share)
    assert harness.compare({"a": int}, peer="a", repeats=1)["loaded"] is marked
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_every_benchmark_is_gated_and_loads(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loads without the extra `peers`, begins with its gate, and the tests that it names exist."""
    for package in PEERS:
        for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, module, None)
    asked: list[str] = []

    class Gated(Exception):
        pass

    def gate(*tests: str) -> None:
        asked.extend(tests)
        raise Gated

    monkeypatch.setattr(script("harness"), "gate", gate)
    monkeypatch.setattr(sys, "argv", ["x.py", "BOOKS"])
    root = Path(__file__).parents[2]
    files = sorted((root / "benchmarks").glob("*.py"))
    names = [path.stem for path in files if "__main__" in path.read_text()]  # the others are parts of these
    assert len(names) > len(files) / 2
    for name in names:
        asked.clear()
        with pytest.raises(Gated):
            script(name).main()
        paths = [word for word in asked if word.startswith("tests")]
        assert paths, name
        assert [path for path in paths if not (root / path).exists()] == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or os.cpu_count() == 1, reason="no cores to be bound to")
def test_children_of_a_bound_process_have_all_cores() -> None:
    cores = "import os; print(len(os.sched_getaffinity(0)))"
    words = f"[sys.executable, '-c', {cores!r}]"
    starts = f"import subprocess, sys, harness; subprocess.run({words}, preexec_fn=harness.unbound)"
    here = {**os.environ, "OMP_PROC_BIND": "true", "PYTHONPATH": str(FOLDER)}
    done = subprocess.run([sys.executable, "-c", starts], env=here, capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(os.sched_getaffinity(0))
