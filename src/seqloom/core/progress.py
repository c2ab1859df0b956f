"""Progress: a live bar on a terminal, one plain line every few seconds elsewhere.

Both go to standard error, so that standard output stays free for results.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO, runtime_checkable


@runtime_checkable
class Advance(Protocol):
    """Reports that `amount` further units are done, with an optional note such as the current loss."""

    def __call__(self, amount: float = 1, note: str = "") -> None:
        """Advances by `amount`."""


Say = Callable[[str], None]
"""takes a line to be printed"""
Show = Callable[..., AbstractContextManager[Advance]]
"""a progress bar, called as `progress` is"""


@contextmanager
def progress(
    label: str, total: float, unit: str = "", *, start: float = 0, every: float = 5.0, stream: TextIO | None = None
) -> Iterator[Advance]:
    """Shows the progress of `label`, its rate in `unit` per second and the time left; yields the function to call.

    `start` units were done before, by the run that is resumed, and do not count for the rate. Off a terminal a line is
    printed every `every` seconds.
    """
    out = stream or sys.stderr
    if out.isatty():
        with _bar(label, total, unit, start, out) as advance:
            yield advance
    else:
        yield _lines(label, total, unit, start, every, out)


@contextmanager
def show_nothing(label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
    """Shows nothing; called as `progress` is."""
    yield lambda amount=1, note="": None


def require_show(show: Any) -> None:
    """Raises TypeError for a progress bar that cannot be called."""
    if not callable(show):
        from seqloom.core.arguments import describe_value  # which imports torch

        raise TypeError(f"show is called as seqloom.core.progress.progress is, not {describe_value(show)}")


def _lines(label: str, total: float, unit: str, start: float, every: float, out: TextIO) -> Advance:
    """The function that advances the progress and prints a line at most every `every` seconds."""
    done = start
    began = printed = time.monotonic()

    def advance(amount: float = 1, note: str = "") -> None:
        nonlocal done, printed
        done += amount
        now = time.monotonic()
        if now - printed < every and done < total:
            return
        if done >= total and now - began < every and printed == began:
            return  # finished before the first line was due: print nothing
        printed = now
        rate = (done - start) / max(now - began, 1e-9)
        left = (total - done) / rate if rate else 0.0
        words = [
            f"{label}: {done:,.0f} of {total:,.0f} {unit}".rstrip(),
            f"{rate:,.1f}/s",
            f"{format_duration(left)} left",
            note,
        ]
        print(" · ".join(word for word in words if word), file=out, flush=True)

    return advance


@contextmanager
def _bar(label: str, total: float, unit: str, start: float, out: TextIO) -> Iterator[Advance]:
    """A live bar on a terminal; yields the function that advances it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit + " · {task.fields[rate]} ·"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    done, began = start, time.monotonic()
    with Progress(*columns, console=Console(file=out), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=int(start), rate="", note="")

        def advance(amount: float = 1, note: str = "") -> None:
            nonlocal done
            done += amount
            rate = (done - start) / max(time.monotonic() - began, 1e-9)
            fields = {"note": note} if note else {}
            bar.update(task, advance=amount, rate=f"{rate:,.1f}/s", **fields)  # type: ignore[arg-type]  # free fields

        yield advance


def format_duration(seconds: float) -> str:
    """A duration in words: 1:05, 2:00:10."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
