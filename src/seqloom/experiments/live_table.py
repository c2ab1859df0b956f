"""The progress of a study's cells: one live table on a terminal, plain lines elsewhere.

The title shows which run of how many is running, and the time left, estimated from the finished cells.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, final

from seqloom.core.progress import Advance, clock, progress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

FRAME = 5
"""lines of a terminal that are the table's title and head, its two lines of how many are not shown, and the cursor's"""
WAITS, DONE, FAILED = "waits", "done", "failed"


@final
@dataclass
class _Line:
    """The progress of one cell."""

    name: str
    effort: float = 0.0
    """training batches, the weight of the cell in the time left"""
    state: str = WAITS
    share: float = 0.0
    """the part of `effort` that is done"""
    loss: str = ""
    rate: str = ""
    left: str = ""
    result: str = ""

    @property
    def ended(self) -> bool:
        """Whether the cell has ended."""
        return self.state in (DONE, FAILED)


@final
class LiveTable:
    """The cells by name. A context: the table is shown while it is open."""

    def __init__(self, efforts: dict[str, float], stream: TextIO | None = None) -> None:
        """`efforts`: the training batches of each cell."""
        self._out = stream or sys.stderr
        self._lines = {name: _Line(name, effort) for name, effort in efforts.items()}
        self._live: Live | None = None
        self._began = self._before = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
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

    def show(self, name: str, *values: Any, **options: Any) -> AbstractContextManager[Advance]:
        """Stands in for `core.progress.progress`: the cell's line of the table advances."""
        return self._shown(self._line(name), *values, **options)

    def already(self, name: str, result: str) -> None:
        """A cell was done before this call, so that it does not enter the time left."""
        line = self._line(name)
        line.state, line.result, line.share = DONE, result, 1.0
        self._before += line.effort

    def done(self, name: str, result: str) -> None:
        """A cell is done; `result` sums up its rows in a few words."""
        line = self._line(name)
        line.state, line.result, line.share = DONE, result, 1.0
        if self._live is None:
            print(f"{self.count()}, {name}: {result}", file=self._out, flush=True)

    def failed(self, name: str, why: str) -> None:
        """A cell failed; the others go on."""
        line = self._line(name)
        line.state, line.result, line.share = FAILED, why, 1.0
        self.say(f"{name} failed: {why}")

    def count(self) -> str:
        """Which run of how many is running, or ended last."""
        ended = sum(line.ended for line in self._lines.values())
        busy = any(not line.ended and line.state != WAITS for line in self._lines.values())
        return f"run {min(ended + busy, len(self._lines))} of {len(self._lines)}"

    def left(self) -> str:
        """The time left, from the batches of this call so far; empty while there are none."""
        whole = sum(line.effort for line in self._lines.values())
        done = sum(line.effort * line.share for line in self._lines.values())
        here = done - self._before
        return clock((time.monotonic() - self._began) * (whole - done) / here) if here > 0 else ""

    def _line(self, name: str) -> _Line:
        return self._lines.setdefault(name, _Line(name))

    @contextmanager
    def _shown(self, line: _Line, label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
        line.state = label
        if self._live is None:
            with progress(f"{self.count()}, {line.name}", total, unit, start=start, stream=self._out) as advance:
                yield advance
        else:
            yield _advancing(line, total, start)
            line.rate = line.left = ""

    def _table(self) -> "Table":
        from rich.table import Table

        left = self.left()
        title = " · ".join([self.count(), *([f"{left} left"] if left else [])])
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        table.add_column("run")
        for head in ("batches", "loss", "rate", "left", "result"):
            table.add_column(head, justify="right")
        height = self._live.console.height if self._live is not None else len(self._lines) + FRAME
        above, shown, below = _window(list(self._lines.values()), height - FRAME)
        if above:
            table.add_row(f"{above} more above", style="dim")
        for line in shown:
            style = "dim" if line.state == WAITS else "" if line.ended else "bold"
            table.add_row(line.name, line.state, line.loss, line.rate, line.left, line.result, style=style)
        if below:
            table.add_row(f"{below} more below", style="dim")
        return table


def _window(lines: Sequence[_Line], most: int) -> tuple[int, Sequence[_Line], int]:
    """`room` lines around the running one, and the numbers of lines above and below that are not shown."""
    most = max(1, most)
    if len(lines) <= most:
        return 0, lines, 0
    at_work = next((at for at, line in enumerate(lines) if line.state != WAITS and not line.ended), None)
    if at_work is None:
        at_work = sum(line.ended for line in lines)
    first = min(max(0, at_work - most // 2), len(lines) - most)
    return first, lines[first : first + most], len(lines) - most - first


def _advancing(line: _Line, total: float, start: float) -> Advance:
    done, began = start, time.monotonic()
    line.state = f"{done:,.0f} of {total:,.0f}"

    def advance(amount: float = 1, note: str = "") -> None:
        nonlocal done
        done += amount
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        line.state, line.rate = f"{done:,.0f} of {total:,.0f}", f"{rate:,.1f}/s"
        line.share = min(1.0, done / total) if total else 0.0
        line.left = clock((total - done) / rate) if rate else ""
        line.loss = note.removeprefix("loss ") or line.loss

    return advance
