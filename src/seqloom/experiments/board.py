"""One live table of all runs while a comparison works; plain lines where there is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO, final

from seqloom.core.progress import Advance, clock, progress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

Show = Callable[..., AbstractContextManager[Advance]]
FRAME = 4
"""lines of a terminal that are the table's head, its two lines of how many are not shown, and the cursor's"""


@dataclass
class _Line:
    """What is known of one run."""

    name: str
    seed: int
    state: str = "waits"
    cost: str = ""
    rate: str = ""
    left: str = ""
    held_out: str = ""


@final
class Board:
    """The runs of a comparison by (name, seed). A context: the table stands while it is open."""

    def __init__(self, runs: Sequence[tuple[str, int]], stream: TextIO | None = None) -> None:
        self._out = stream or sys.stderr
        self._lines = {run: _Line(*run) for run in runs}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(get_renderable=self._table, console=Console(file=self._out), refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def say(self, line: str) -> None:
        """A line above the table."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=self._out, flush=True)

    def show(self, name: str, seed: int) -> Show:
        """Stands in for `core.progress.progress` in a run's training: the run's line of the table goes on."""
        line = self._lines[name, seed]

        @contextmanager
        def shown(label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
            if self._live is None:
                with progress(f"{name}, seed {seed}", total, unit, start=start, stream=self._out) as told:
                    yield told
            else:
                yield _going_on(line, total, start)
                line.rate = line.left = ""

        return shown

    def done(self, name: str, seed: int, held_out: float) -> None:
        """A run is trained and scored."""
        line = self._lines[name, seed]
        line.state, line.held_out = "done", f"{held_out:.4f}"
        if self._live is None:
            print(f"{name}, seed {seed}: held-out cost {held_out:.4f}", file=self._out, flush=True)

    def _table(self) -> "Table":
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        table.add_column("model")
        for head in ("seed", "batches", "cost", "rate", "left", "held-out"):
            table.add_column(head, justify="right")
        height = self._live.console.height if self._live is not None else len(self._lines) + FRAME
        above, shown, below = _window(list(self._lines.values()), height - FRAME)
        if above:
            table.add_row(f"{above} more above", style="dim")
        for line in shown:
            style = "dim" if line.state == "waits" else "" if line.state == "done" else "bold"
            cells = (str(line.seed), line.state, line.cost, line.rate, line.left, line.held_out)
            table.add_row(line.name, *cells, style=style)
        if below:
            table.add_row(f"{below} more below", style="dim")
        return table


def _window(lines: Sequence[_Line], most: int) -> tuple[int, Sequence[_Line], int]:
    """So many lines around the one that is at work, and how many stand above and below them."""
    most = max(1, most)
    if len(lines) <= most:
        return 0, lines, 0
    at_work = next((place for place, line in enumerate(lines) if line.state not in ("waits", "done")), None)
    if at_work is None:
        at_work = sum(line.state == "done" for line in lines)
    first = min(max(0, at_work - most // 2), len(lines) - most)
    return first, lines[first : first + most], len(lines) - most - first


def _going_on(line: _Line, total: float, start: float) -> Advance:
    done, began = start, time.monotonic()
    line.state = f"{done:,.0f} of {total:,.0f}"

    def advance(amount: float = 1, note: str = "") -> None:
        nonlocal done
        done += amount
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        line.state, line.rate = f"{done:,.0f} of {total:,.0f}", f"{rate:,.1f}/s"
        line.left = clock((total - done) / rate) if rate else ""
        line.cost = note.removeprefix("cost ") or line.cost

    return advance
