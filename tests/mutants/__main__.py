"""Introduces faults one at a time and lists those that the tests of their package do not detect.

    python -m tests.mutants --number 100 --seed 0        # as `make mutants`; exit 1 if more than 3 survive
    python -m tests.mutants --number 10 --only checkpoint --list

Each fault is planted in a copy of the tree, never here. First the tests run there without a fault: they must pass, and
the limit of a fault is three times what they took. A fault that hangs, or that the tests cannot import, is noticed.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import final

from tests.mutants.equivalent import PROVED
from tests.mutants.operators import Place, places, planted
from tests.mutants.plan import GROUPS, MARKS, ROOT, Group
from tests.mutants.tree import copied, passes

ALLOWED = 3
"""survivors that are not proved equivalent"""


@final
@dataclass(frozen=True)
class Fault:
    """A place in a file of a group."""

    group: Group
    path: str
    """of the file, from the root"""
    place: Place

    @property
    def key(self) -> str:
        """As it is listed in `equivalent.py`; without a line, which moves."""
        return f"{self.path}: {self.place.text}: {self.place.before} → {self.place.after}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The arguments of pytest that must notice it."""
        return tuple(self.group.arguments(ROOT / self.path))


def drawn(groups: list[Group], number: int, seed: int) -> list[Fault]:
    """That many faults, as many of each group, in an order that the seed gives them.

    A fault's place in that order depends on its key alone: where a line changes, the faults of the others stay.
    """
    result = []
    for n, group in enumerate(groups):
        those = [
            Fault(group, str(path.relative_to(ROOT)), place)
            for path in group.sources()
            for place in places(path.read_text(encoding="utf-8"))
        ]
        share = number // len(groups) + (n < number % len(groups))
        result += sorted(those, key=lambda fault: sha256(f"{seed} {fault.key}".encode()).digest())[:share]
    return result


def limit(tests: tuple[str, ...], tree: Path) -> float:
    """Seconds allowed to some tests: three times what they take without a fault, and half a minute."""
    began = time.monotonic()
    assert passes(tree, [*tests, *MARKS], limit=1800), f"without any fault {' '.join(tests)} does not pass"
    return 30 + 3 * (time.monotonic() - began)


def survives(fault: Fault, tree: Path, limit: float) -> bool:
    """Whether the tests of its package pass with the fault."""
    path = tree / fault.path
    source = path.read_text(encoding="utf-8")
    path.write_text(planted(source, fault.place), encoding="utf-8")
    try:
        return passes(tree, [*fault.tests, *MARKS], limit)
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    words.add_argument("--number", type=int, default=100, help="faults that are planted")
    words.add_argument("--seed", type=int, default=0, help="draws the places")
    words.add_argument("--workers", type=int, default=2, help="copies of the tree, each with a process")
    words.add_argument(
        "--only", choices=[group.name for group in GROUPS], action="append", help="groups; all by default"
    )
    words.add_argument("--list", action="store_true", help="print the faults and plant none")
    given = words.parse_args()
    faults = drawn(
        [group for group in GROUPS if given.only is None or group.name in given.only], given.number, given.seed
    )
    if given.list:
        print(*(f"{fault.place.line:4d} {fault.place.fault:10s} {fault.key}" for fault in faults), sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for n in range(given.workers):
            trees.put(copied(Path(folder) / str(n)))

        def allow(tests: tuple[str, ...]) -> float:
            tree = trees.get()
            seconds = limit(tests, tree)
            trees.put(tree)
            return seconds

        def run(fault: Fault) -> bool:
            tree, began = trees.get(), time.monotonic()
            survived = survives(fault, tree, allowed[fault.tests])
            trees.put(tree)
            word = "survived" if survived else "noticed"
            print(f"{word:8s} {time.monotonic() - began:4.0f} s  line {fault.place.line}  {fault.key}", flush=True)
            return survived

        with ThreadPoolExecutor(given.workers) as workers:
            sets = list(dict.fromkeys(fault.tests for fault in faults))
            allowed = dict(zip(sets, workers.map(allow, sets), strict=True))
            survivors = [fault for fault, left in zip(faults, workers.map(run, faults), strict=True) if left]
    unproved = [fault for fault in survivors if fault.key not in PROVED]
    print(
        f"\n{len(faults)} faults, {len(survivors)} survived, {len(survivors) - len(unproved)} proved to change nothing"
    )
    print(*(f"  {fault.path}:{fault.place.line}  {fault.key}" for fault in unproved), sep="\n")
    return int(len(unproved) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
