"""The loop of the queue: the items in their order, each once per change of its code, as many as there is time for.

    for item in items:                         that has not ended with this code on this card
        for cell in item.study(place).stages   that has no line yet
            run the cell, append its line      if the time that is left is enough for it

A cell that takes longer than the time that was left is interrupted by the command's `--minutes`: trainings are saved,
and go on in the next call on the same machine. An item that cannot begin does not stop a later, shorter one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core.progress import Say, progress
from seqloom.core.table import table
from seqloom.studies.perform import perform, reason
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Stopped, Study
from seqloom_studies.gpu.card import Card, code_digest
from seqloom_studies.gpu.ledger import Ledger
from seqloom_studies.gpu.sizes import Sizes

MARGIN = 10.0
"""seconds that are left unused at the end, for what is saved then"""


@final
@dataclass(frozen=True)
class Place:
    """What the studies of items are made of."""

    card: Card
    sizes: Sizes
    books: Path | None
    """a folder of texts whose names tell their authors"""
    tokens: Path | None
    """the text of the paper's figures, prepared, instead of `books`"""
    runs: Path
    """the folder of all runs"""


@final
@dataclass(frozen=True)
class Item:
    """An entry of the queue."""

    name: str
    says: str
    minutes: float
    """of the whole, an estimate"""
    least: float
    """minutes of one of its cells, an estimate: it begins none with less time left"""
    uses: tuple[str, ...]
    """modules that it depends on: it is run again once their code has changed"""
    study: Callable[[Place, str], Study]
    """its cells; the second argument is the digest of the code"""
    reads: bool = False
    """whether it reads the books"""
    vital: bool = False
    """whether nothing else runs before it has ended without a fault"""

    @property
    def code(self) -> str:
        """The digest of its code."""
        return code_digest((self.study.__module__, *self.uses))


@final
class Clock:
    """The time that is left of a call."""

    def __init__(self, minutes: float, began: float) -> None:
        """`began`: when the process began, by time.monotonic()."""
        self.minutes = minutes
        self._end = began + 60 * minutes - MARGIN * min(1.0, minutes)

    def has(self, minutes: float) -> bool:
        """Whether so many minutes are left."""
        return time.monotonic() + 60 * minutes <= self._end


@final
class Failed(Exception):
    """A fault in an item without which nothing else runs."""


def work(items: Sequence[Item], place: Place, ledger: Ledger, clock: Clock, command: str, say: Say) -> list[str]:
    """Runs what there is time for; returns the reasons why cells failed. Raises `Failed`, `Stopped`, KeyboardInterrupt.

    ValueError where the time is too short for any item that is left.
    """
    left = [item for item in items if not ledger.has_ended(item.name, item.code)]
    if not left:
        say("every item has ended with this code on this card")
        return []
    begins = next((item for item in left if item.vital), min(left, key=lambda item: item.least))
    if not clock.has(begins.least):
        raise ValueError(
            f"--minutes {clock.minutes:g} is too short: {begins.name} needs about {begins.least:g} more minutes"
        )
    reasons = []
    for item in left:
        if item.reads and place.books is None:
            say(f"{item.name}: left out, it reads the books of --data")
            continue
        if not clock.has(item.least):
            say(f"{item.name}: left for another call, it needs about {item.least:g} minutes")
            continue
        say(f"{item.name}: {item.says}")
        try:
            failed = _run(item, place, ledger, clock, command, say)
        except (ValueError, OSError) as error:  # its text is missing or does not fit: others have another
            failed = {"its cells": reason(error)}
        reasons += [f"{item.name}: {name} failed: {why}" for name, why in failed.items()]
        if failed and item.vital:
            raise Failed(f"{reasons[0]}; the call ends")
    return reasons


def plan(items: Sequence[Item], ledger: Ledger, minutes: float | None) -> str:
    """The table of the items, and which of them a call of so many minutes reaches, by the estimates."""
    rows, free = [], minutes
    for item in items:
        ended, cells = ledger.has_ended(item.name, item.code), ledger.cells(item.name, item.code)
        state = "ended" if ended else f"{cells:,} cells done" if cells else "not begun"
        reached = ""
        if free is not None and not ended:
            reached = "whole" if free >= item.minutes else "part" if free >= item.least else "no"
            free -= min(item.minutes, free) if reached != "no" else 0
        rows.append((item.name, item.says, f"{item.minutes:g}", f"{item.least:g}", state, reached))
    head = ("item", "what", "minutes", "of a cell", "state", "this call" if minutes is not None else "")
    return table(head, rows)


def _run(item: Item, place: Place, ledger: Ledger, clock: Clock, command: str, say: Say) -> dict[str, str]:
    """Runs the cells of an item that have no line; returns why cells failed."""
    began, code = time.monotonic(), item.code
    study = item.study(place, code)
    results = Results(place.runs / f"{study.name}-{code}-{place.card.digest}")
    least = item.least
    for stage in study.stages(results):
        for cell in stage:
            if results.add(cell) or ledger.restore(study.name, code, cell, results):
                continue
            if not clock.has(least):
                say(f"{item.name}: {cell.name} is left for another call")
                return results.failed
            cell_began = time.monotonic()
            if _perform(cell, results, command, say):
                ledger.add(item.name, study.name, code, cell, results.rows[cell.name])
                say(f"{item.name}: {cell.name}: {cell.text(results.rows[cell.name])}")
                least = max(least, (time.monotonic() - cell_began) / 60)
    if not results.failed:
        ledger.end(item.name, code, (time.monotonic() - began) / 60)
    return results.failed


def _perform(cell: Cell, results: Results, command: str, say: Say) -> bool:
    """Runs a cell; False where it failed, with the reason in the results."""
    try:
        perform(cell, results.out, command, say, progress)
    except (Stopped, KeyboardInterrupt):
        raise
    except Exception as error:
        results.failed[cell.name] = reason(error)
        say(f"{cell.name} failed: {results.failed[cell.name]}")
        return False
    return results.add(cell)
