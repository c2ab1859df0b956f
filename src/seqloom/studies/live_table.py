"""Shows the progress of a study's cells: a live table on a terminal, plain lines elsewhere.

The title has the number of the running cell, the number of all cells, and the time left by the finished ones.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, final

from seqloom.core.progress import Advance, format_duration, progress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

FRAME = 5
"""lines of a terminal without a cell: title, header, the two counts of cells that are not shown, and the cursor"""
WAITS, DONE, FAILED = "waits", "done", "failed"


@final
@dataclass
class _Line:
    """The progress of one cell."""

    name: str
    effort: float = 0.0
    """training batches, by which the cell counts in the time left"""
    state: str = WAITS
    share: float = 0.0
    """the share of `effort` that is done"""
    loss: str = ""
    rate: str = ""
    left: str = ""
    result: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the cell has ended."""
        return self.state in (DONE, FAILED)

    @property
    def style(self) -> str:
        """The style of the line in the table: only the running cell is bold."""
        if self.state == WAITS:
            return "dim"
        return "" if self.has_ended else "bold"


@final
class LiveTable:
    """The table of all cells. It is a context manager, and is shown while the context is open."""

    def __init__(self, efforts: dict[str, float], stream: TextIO | None = None) -> None:
        """`efforts`: the training batches of each cell."""
        self._out = stream or sys.stderr
        self._lines = {name: _Line(name, effort) for name, effort in efforts.items()}
        self._live: Live | None = None
        self._began = self._done_before = 0.0

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
        """Prints a line above the table."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=self._out, flush=True)

    def show(self, name: str, *values: Any, **options: Any) -> AbstractContextManager[Advance]:
        """Replaces `core.progress.progress`: progress is shown in the cell's line of the table."""
        return self._line_progress(self._line(name), *values, **options)

    def already(self, name: str, result: str) -> None:
        """Marks a cell as done before this command, so that it does not count in the estimate of the time left."""
        line = self._line(name)
        line.state, line.result, line.share = DONE, result, 1.0
        self._done_before += line.effort

    def mark_done(self, name: str, result: str) -> None:
        """Marks a cell as done; `result` has its rows in a few words."""
        line = self._line(name)
        line.state, line.result, line.share = DONE, result, 1.0
        if self._live is None:
            print(f"{self.count()}, {name}: {result}", file=self._out, flush=True)

    def mark_failed(self, name: str, why: str) -> None:
        """Marks a cell as failed; the others continue."""
        line = self._line(name)
        line.state, line.result, line.share = FAILED, why, 1.0
        self.say(f"{name} failed: {why}")

    def count(self) -> str:
        """The number of the cell that is running or ended last, and the number of all cells."""
        ended = sum(line.has_ended for line in self._lines.values())
        running = any(not line.has_ended and line.state != WAITS for line in self._lines.values())
        number = ended + 1 if running else ended
        return f"run {min(number, len(self._lines))} of {len(self._lines)}"

    def time_left(self) -> str:
        """The time left, by the speed of this command so far; empty while no batch is done."""
        total = sum(line.effort for line in self._lines.values())
        done = sum(line.effort * line.share for line in self._lines.values())
        done_now = done - self._done_before
        if done_now <= 0:
            return ""
        return format_duration((time.monotonic() - self._began) * (total - done) / done_now)

    def _line(self, name: str) -> _Line:
        return self._lines.setdefault(name, _Line(name))

    @contextmanager
    def _line_progress(
        self, line: _Line, label: str, total: float, unit: str = "", *, start: float = 0
    ) -> Iterator[Advance]:
        """Shows the progress of a cell in its line, or as a progress bar where there is no live table."""
        line.state = label
        if self._live is None:
            with progress(f"{self.count()}, {line.name}", total, unit, start=start, stream=self._out) as advance:
                yield advance
        else:
            yield _advancing(line, total, start)
            line.rate = line.left = ""

    def _table(self) -> "Table":
        """The table as rich draws it: the lines that fit the height of the terminal."""
        from rich.table import Table

        left = self.time_left()
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
            table.add_row(line.name, line.state, line.loss, line.rate, line.left, line.result, style=line.style)
        if below:
            table.add_row(f"{below} more below", style="dim")
        return table


def _window(lines: Sequence[_Line], limit: int) -> tuple[int, Sequence[_Line], int]:
    """(number of lines above, at most `limit` lines around the running one, number of lines below)."""
    limit = max(1, limit)
    if len(lines) <= limit:
        return 0, lines, 0
    current = next((index for index, line in enumerate(lines) if line.state != WAITS and not line.has_ended), None)
    if current is None:
        current = sum(line.has_ended for line in lines)
    first = min(max(0, current - limit // 2), len(lines) - limit)
    return first, lines[first : first + limit], len(lines) - limit - first


def _advancing(line: _Line, total: float, start: float) -> Advance:
    """A function that enters progress of a cell into its line of the table."""
    done = start
    began = time.monotonic()
    line.state = f"{done:,.0f} of {total:,.0f}"

    def advance(amount: float = 1, note: str = "") -> None:
        nonlocal done
        done += amount
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        line.state, line.rate = f"{done:,.0f} of {total:,.0f}", f"{rate:,.1f}/s"
        line.share = min(1.0, done / total) if total else 0.0
        line.left = format_duration((total - done) / rate) if rate else ""
        line.loss = note.removeprefix("loss ") or line.loss

    return advance
