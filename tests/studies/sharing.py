"""Commands that share a folder, as several machines do: `share(OUT, CELLS, PATIENCE)` in a process each.

A cell notes who runs it in OUT/begun, and ends when OUT/go is there.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from seqloom.core.progress import Say, Show
from seqloom.runs import lease
from seqloom.studies import shared, workers
from seqloom.studies.runner import Workers, run
from seqloom.studies.study import Row
from tests.studies.cells import Square, Timed, study


@final
@dataclass(frozen=True)
class Noted(Square):
    """A square that waits for OUT/go."""

    @override
    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        out = folder.parent
        with (out / "begun").open("a") as file:
            file.write(json.dumps([self.name, os.getpid()]) + "\n")
        while not (out / "go").exists():
            time.sleep(0.02)
        return super().run(folder, say, show)


def begun(out: Path) -> list[Any]:
    """(cell, process) of every cell that has begun, in order."""
    path = out / "begun"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def share(out: Path, count: int, patience: float) -> None:
    """Runs so many cells and a timed one; prints the squares of all and ends the process."""
    workers.EVERY = 0.02
    shared.LOOKS = lease.LOOKS = round(50 * patience)
    cells = [Noted(str(number), number) for number in range(count)]
    results = run(study(cells, [Timed("timed", 7)]), out, Workers(share=True, patience=patience))
    print(json.dumps({name: rows[0].model_dump()["value"] for name, rows in sorted(results.rows.items())}))
    sys.exit(2 if results.failed else 0)
