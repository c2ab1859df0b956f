"""What one layer can track, in the docs: the table of the probes that every token so far matters to.

It is made from results/recall_trained.jsonl: rows of `seqloom study recall --depth 1` with the probes `parity` and
`swaps`, trained on rows of one length and asked about longer ones.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from seqloom.report.stored import read_rows, render_markdown

FILE = "recall_trained.jsonl"
PROBES = ("parity", "swaps")


def section(results: Path) -> str | None:
    """Markdown of the table and of what its rows are; None unless there are rows of both probes."""
    rows = [row for row in read_rows(results / FILE) if row["probe"] in PROBES and row["depth"] == 1]
    rows = [row for row in rows if row["distance"] is None]
    if {row["probe"] for row in rows} != {*PROBES}:
        return None
    by_mixer: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        by_mixer.setdefault(row["mixer"], {}).setdefault(row["probe"], []).append(row)
    ranked = sorted(by_mixer.items(), key=lambda item: -sum(_share_right(item[1].get(probe, [])) for probe in PROBES))
    first = rows[0]
    text = render_markdown(
        Path(__file__).with_name("tracked.md.jinja"),
        lines=[_line(name, answers) for name, answers in ranked],
        file=FILE,
        trained=first["settings"]["length"],
        asked=first["test"]["length"],
        dim=first["dim"],
        lr=f"{first['lr']:g}",
        most=f"{max(row['batches'] for row in rows):,}",
        chances={probe: f"{max(row['chance'] for row in rows if row['probe'] == probe):.1%}" for probe in PROBES},
    )
    return text.rstrip()


def _line(name: str, answers: dict[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    """The mixer, its state, and for each probe the share of right answers, the batches and the seeds."""
    sizes = {f"{row['state_bytes']:,}" for rows in answers.values() for row in rows}
    return name, *sorted(sizes)[:1], *(cell for probe in PROBES for cell in _cells(answers.get(probe, [])))


def _cells(rows: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    if not rows:
        return "", "", ""
    shares = sorted(row["accuracy"] for row in rows)
    batches = sorted({row["batches"] for row in rows})
    spread = f" ({shares[0]:.1%} to {shares[-1]:.1%})" if len(rows) > 1 else ""
    return (
        f"{mean(shares):.1%}{spread}",
        f"{batches[0]:,}" + (f" to {batches[-1]:,}" if len(batches) > 1 else ""),
        str(len(rows)),
    )


def _share_right(rows: Sequence[dict[str, Any]]) -> float:
    return mean(row["accuracy"] for row in rows) if rows else 0.0
