"""`python -m tests.faults --number 200 --seed 0`: faults of each kind in turn, and a table of what became of the runs.

injected   the faults that a process met            detected   those that were named
recovered  those after which the run went on        lost       those after which something was missing
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.trial import KINDS, draw_fault, expected_run, try_fault


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first fault")
    parser.add_argument("--kind", choices=KINDS, help="faults of this kind alone")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no fault begins after so many seconds")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(KINDS)
    began = time.monotonic()
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        os.environ.setdefault("SEQLOOM_CACHE", f"{name}/cache")
        expected = expected_run(Path(name) / "expected")
        for number in range(options.first, options.first + options.number):
            if time.monotonic() - began > options.seconds:
                break
            fault = draw_fault(kinds[number % len(kinds)], options.seed, number)
            with tempfile.TemporaryDirectory(dir=name) as folder:
                result = try_fault(fault, Path(folder), expected)
            outcome = {field: getattr(result, field) for field in ("injected", "detected", "recovered", "lost")}
            counts[fault.kind].update({"tried": 1, **{field: int(value) for field, value in outcome.items()}})
            good = result.detected and result.recovered and not result.lost
            print(f"{number:4} {'ok ' if good else 'BAD'} {fault}: {result.why}", file=sys.stderr, flush=True)
    _print_table(counts)
    total = sum(counts.values(), Counter[str]())
    return int(total["lost"] > 0 or total["recovered"] < total["tried"] or total["detected"] < total["tried"])


def _print_table(counts: dict[str, Counter[str]]) -> None:
    fields = ("tried", "injected", "detected", "recovered", "lost")
    print(f"| {'fault':24} | {' | '.join(f'{field:>9}' for field in fields)} |")
    print(f"|{'-' * 26}|{'|'.join(['----------:'] * len(fields))}|")
    for kind, count in [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]:
        print(f"| {kind:24} | {' | '.join(f'{count[field]:9}' for field in fields)} |")


if __name__ == "__main__":
    raise SystemExit(main())
