"""The method of all benchmarks: tests first, runs in turns, ratios within a round, rows with machine and commit.

gate("tests/ops/test_lag_sum.py")                       # nothing is timed if a test fails, or in a tree with changes
append("lag_sum", [{"T": 128, **compare({"fft": run, "direct": other}, peer="fft")}])

With --scratch FILE, for tries, the rows go to that file, from a tree with changes too.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seqloom.analysis.history import require_traceable
from seqloom.analysis.measure import Timing, race
from seqloom.analysis.origin import commit, origin, tag
from seqloom.analysis.others import is_loaded, warning, watch

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
TRIES = "SEQLOOM_SCRATCH"
"""the environment's name for the file of --scratch"""

for _look_up in (commit, tag):
    _look_up()  # of what this process runs, whatever is checked out while it does


def _scratch() -> Path | None:
    """The file of --scratch, which is taken out of the command line, so that no benchmark needs to know it.

    Processes that a benchmark starts find it in the environment.
    """
    if "--scratch" in sys.argv:
        index = sys.argv.index("--scratch")
        if index + 1 == len(sys.argv):
            raise SystemExit("--scratch needs a file")
        os.environ[TRIES] = str(Path(sys.argv[index + 1]).absolute())
        del sys.argv[index : index + 2]
    path = os.environ.get(TRIES)
    return None if path is None else Path(path)


SCRATCH = _scratch()


def gate(*tests: str) -> None:
    """Runs these tests, in a process of their own; if they are not green, says which and ends with exit code 1.

    Before that it ends where the rows could not be appended: it asks for a commit on main, or for --scratch.
    """
    if SCRATCH is None:
        try:
            require_traceable([commit()])
        except ValueError as error:
            raise SystemExit(str(error)) from None
    words = [sys.executable, "-P", "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=unbound)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        failed = [line for line in said if line.startswith(("FAILED", "ERROR"))] or said[-1:]
        print("\n".join([*failed, "red tests, no time"]), file=sys.stderr)
        raise SystemExit(1)


def unbound() -> None:
    """Called in a child before it starts: gives it all cores.

    OMP_PROC_BIND binds this process to the core of its first thread as soon as torch is loaded, and children inherit
    that: their threads would share one core, and under `chrt -f` spin there for minutes.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def compare(
    runs: Mapping[str, Callable[[], object]],
    peer: str,
    repeats: int = 7,
    warm: int = 1,
    after: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """The part of a row that says how long each run took, and how often as long as `peer` in the same round.

    Spreads are [median, lower quartile, upper quartile]. `after` is called, off the clock, when a timed run has ended.
    It warns, and marks the row, where others used the cores.
    """
    assert peer in runs, f"no run is called {peer!r}"
    others = watch()
    times = race(runs, repeats, warm=warm, after=after)
    share = others()
    if warning(share):
        print(warning(share), file=sys.stderr)
    return {
        "ms_median_quartiles": {name: spread(time, 1e3) for name, time in times.items()},
        "peer": peer,
        "ratio_median_quartiles": {name: spread(time.over(times[peer])) for name, time in times.items()},
        "repeats": repeats,
        "loaded": is_loaded(share),
    }


def spread(times: Timing, unit: float = 1.0) -> list[float]:
    """[median, lower quartile, upper quartile], to four digits."""
    return [float(f"{unit * each:.4g}") for each in (times.median, *times.quartiles)]


def append(name: str, rows: list[dict[str, Any]]) -> None:
    """Appends rows to results/NAME.jsonl, each with where it is from, and prints them.

    ValueError for rows of a tree with changes, or of a commit that is not on main.
    """
    source = origin(command())
    if SCRATCH is None:
        require_traceable([source["commit"]])
        RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.jsonl" if SCRATCH is None else SCRATCH
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, **source}) + "\n")
            print(json.dumps(row), flush=True)


def command() -> str:
    """The command of this process, from the repository's root."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
