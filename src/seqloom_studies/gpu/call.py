"""A call of the queue: what it needs is there, the items run, and what they found is in a folder that comes back."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.cli.over import AGAIN
from seqloom.data import archive
from seqloom.data.stories import corpus
from seqloom.runs.durable import replace_text
from seqloom.studies.command import typed_command
from seqloom.studies.study import Stopped
from seqloom.training.settings import resolve
from seqloom_studies.board.rows import merge
from seqloom_studies.gpu import sizes
from seqloom_studies.gpu.caches import Caches
from seqloom_studies.gpu.card import Card, card_here, require_commit
from seqloom_studies.gpu.items import ITEMS
from seqloom_studies.gpu.ledger import NAME, Ledger
from seqloom_studies.gpu.queue import Clock, Failed, Place, plan, work
from seqloom_studies.gpu.tuning import take_stored_variants
from seqloom_studies.paper.scales import Scale

BOOKS = 24
"""tiny texts of the check"""


@final
@dataclass(frozen=True)
class Call:
    """The options of the command."""

    out: Path
    books: Path | None
    tokens: Path | None
    commit: str | None
    packs: Path
    device: str
    tiny: bool
    earlier: Path

    @property
    def lines_before(self) -> list[Path]:
        """The files of rows of calls before."""
        return sorted(self.earlier.glob("rows*.jsonl"))


def require_minutes(minutes: float) -> None:
    """ValueError where a call is too short for the shortest cell of any item."""
    shortest = min(ITEMS, key=lambda item: item.least)
    if 0 < minutes < shortest.least:
        raise ValueError(
            f"--minutes {minutes:g} is too short: a cell of {shortest.name} needs about {shortest.least:g}"
        )


def plan_call(call: Call, minutes: float | None) -> str:
    """The plan, by the rows of any card."""
    return plan(ITEMS, Ledger(call.out, call.lines_before, None, typed_command()), minutes)


def act(call: Call, minutes: float, began: float) -> int:
    """Runs the queue. Returns 0 where all items have ended, 75 where some are left, 2 after a fault.

    ValueError, in one line, where something that it needs is missing.
    """
    card = card_here(call.device)
    require_commit(call.commit, call.packs, tries=call.tiny)
    scale = sizes.TINY if call.tiny else sizes.FULL
    _require_tokens(call.tokens, scale.scale)
    runs = call.out / "runs" if call.tiny else Path("runs/gpu")
    books = _books(call, runs)
    place = Place(card, scale, books, call.tokens, runs)
    ledger = Ledger(call.out, call.lines_before, card, typed_command())
    caches = Caches(call.packs, card)
    caches.unpack(_say)
    take_stored_variants()
    code = 0
    try:
        for reason in work(ITEMS, place, ledger, Clock(minutes, began), typed_command(), _say):
            print(f"seqloom: {reason}", file=sys.stderr)
            code = 2
    except Failed as fault:
        print(f"seqloom: {fault}", file=sys.stderr)
        code = 2
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        code = stopped.code
    finally:
        _export(place, card, call.out)
        caches.pack(call.out, _say)
    _say(f"the rows are in {call.out / NAME}")
    left = [item.name for item in ITEMS if not ledger.has_ended(item.name, item.code)]
    if left and code == 0:
        _say(f"left: {', '.join(left)}")
        return AGAIN
    return code


def _books(call: Call, runs: Path) -> Path | None:
    """The folder of texts, if there is one. ValueError for one that is not there."""
    if call.books is not None:
        if not call.books.is_dir():
            raise ValueError(f"--data {call.books}: there is no such folder of texts")
        return call.books
    if not call.tiny:
        return None
    folder = runs / "texts"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(BOOKS):
        text = "\n\n".join(corpus(12, number))
        replace_text(folder / f"Name{number} Person{number} - A Tale.txt", text)
    return folder


def _require_tokens(path: Path | None, scale: Scale) -> None:
    """ValueError, in one line, for a file of tokens that is cut, altered or of other settings than the figures'."""
    if path is None:
        return
    if not path.is_file():
        raise ValueError(f"--tokens {path}: there is no such file; `seqloom data prepare` writes one")
    data = resolve(scale.preset, scale.changes).data
    archive.read(path, archive.shaping(data, None))


def _export(place: Place, card: Card, out: Path) -> None:
    """Writes the comparison's rows of this card as a file that `seqloom study board --results` reads."""
    for folder in place.runs.glob(f"B1-*-{card.digest}"):
        merge(folder, out / f"comparison-{card.slug}.jsonl", scratch=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
