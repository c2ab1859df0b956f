"""What one layer can track, in the docs: the table of the probes that every token so far matters to.

It is made from results/recall_trained.jsonl: rows of `seqloom study recall --depth 1` with the probes `parity` and
`swaps`, trained on rows of one length and asked about longer ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, final

from seqloom.core.table import format_size
from seqloom.report.stored import read_rows, render_markdown

FILE = "recall_trained.jsonl"
PROBES = ("parity", "swaps")


@final
@dataclass(frozen=True)
class Tracked:
    """A mixer's answers to one probe, over its seeds."""

    shares: Sequence[float]
    """of right answers, ascending"""
    batches: Sequence[int]
    """until the trained rows were solved, or as many as were allowed; ascending"""
    chance: float
    state_bytes: int

    @property
    def share(self) -> float:
        """The mean over the seeds."""
        return fmean(self.shares)

    @property
    def text(self) -> str:
        """The mean, and the lowest and the highest of several seeds that differ."""
        lowest, highest = f"{self.shares[0]:.1%}", f"{self.shares[-1]:.1%}"
        return f"{self.share:.1%}" + ("" if lowest == highest else f" ({lowest} to {highest})")


def model_name(mixer: str) -> str:
    """A model of the rows as the command line takes it, such as attention:heads=2,kernel=4."""
    kind, *settings = mixer.split("-")
    return f"`{kind}:{','.join(settings)}`" if settings else f"`{kind}`"


def tracked_mixers(results: Path) -> dict[str, dict[str, Tracked]]:
    """The answers of each mixer by probe, the mixer with the most right answers first."""
    by_mixer: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in _rows(results):
        by_mixer.setdefault(row["mixer"], {}).setdefault(row["probe"], []).append(row)
    answers = {mixer: {probe: _answers(rows) for probe, rows in probes.items()} for mixer, probes in by_mixer.items()}
    return dict(sorted(answers.items(), key=lambda item: -sum(tracked.share for tracked in item[1].values())))


def section(results: Path) -> str | None:
    """Markdown of the table and of what its rows are; None unless there are rows of both probes."""
    rows = _rows(results)
    if {row["probe"] for row in rows} != {*PROBES}:
        return None
    first = rows[0]
    text = render_markdown(
        Path(__file__).with_name("tracked.md.jinja"),
        lines=[_line(mixer, answers) for mixer, answers in tracked_mixers(results).items()],
        file=FILE,
        trained=first["settings"]["length"],
        asked=first["test"]["length"],
        dim=first["dim"],
        lr=f"{first['lr']:g}",
        most=f"{max(row['batches'] for row in rows):,}",
        chances={probe: f"{max(row['chance'] for row in rows if row['probe'] == probe):.1%}" for probe in PROBES},
    )
    return text.rstrip()


def _rows(results: Path) -> list[dict[str, Any]]:
    """The rows of all questions of both probes."""
    rows = [row for row in read_rows(results / FILE) if row["probe"] in PROBES and row["depth"] == 1]
    return [row for row in rows if row["distance"] is None]


def _answers(rows: Sequence[dict[str, Any]]) -> Tracked:
    return Tracked(
        sorted(row["accuracy"] for row in rows),
        sorted(row["batches"] for row in rows),
        max(row["chance"] for row in rows),
        min(row["state_bytes"] for row in rows),
    )


def _line(name: str, answers: dict[str, Tracked]) -> list[str]:
    """The mixer, its state, and for each probe the share of right answers, the batches and the seeds."""
    memory = format_size(min(tracked.state_bytes for tracked in answers.values()))
    return [model_name(name), memory, *(cell for probe in PROBES for cell in _cells(answers.get(probe)))]


def _cells(tracked: Tracked | None) -> tuple[str, str, str]:
    if tracked is None:
        return "", "", ""
    fewest, most = tracked.batches[0], tracked.batches[-1]
    batches = f"{fewest:,}" + (f" to {most:,}" if most > fewest else "")
    return tracked.text, batches, str(len(tracked.shares))
