"""docs/choose.md, which mixer for which need: generated from the rows in results/all.jsonl.

    python -m docs.making.choose OUT

OUT is the --out of `seqloom compare --all`: its comparison.json becomes results/all.jsonl, one row per contender, each
with its origin. `make pages` then writes the page; without those rows there is none.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.making import board
from docs.making.command import exit_code
from docs.making.decision import decision
from docs.making.results import read_rows, write_rows
from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.core.table import markdown
from seqloom.report.comparison import LOSS
from seqloom.report.needs import LOSSES, NEAR, TIE, TIME, Need, Row, cell, needs

ROOT = Path(__file__).parents[2]
ROWS, PAGE = ROOT / "results/all.jsonl", ROOT / "docs/choose.md"
SHARED = ("preset", "changes", "seeds", "paired", "batches", "stretch", "batch", "context", "probe_batches")
ORIGIN = ("date", "commit", "command", "machine")


def store(out: Path, path: Path = ROWS) -> int:
    """Writes the rows of the comparison in `out`; returns how many. ValueError, OSError where there is none."""
    comparison = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    if not isinstance(comparison, dict) or not {"contenders", "origin", "left_out"} <= comparison.keys():
        raise ValueError(f"{out.name}/comparison.json is of no `seqloom compare --all`: make it with that")
    shared = {**{name: comparison[name] for name in SHARED}, "text": comparison["text"]["description"]}
    source = {name: comparison["origin"][name] for name in ORIGIN}
    rows = [
        {
            "contender": contender["name"],
            "kind": contender["kind"],
            **shared,
            **contender["row"],
            LOSSES: contender.get("spread", {}).get(LOSS, []),
            "limitations": contender["limitations"],
            **source,
        }
        for contender in comparison["contenders"]
    ]
    rows += [
        {"contender": contender["name"], **shared, "left_out": contender["why"], **source}
        for contender in comparison["left_out"]
    ]
    write_rows(path, rows)
    return len(rows)


def page(path: Path = ROWS) -> str | None:
    """The text of the page; None where there are no rows."""
    rows = read_rows(path)
    if not rows:
        return None
    built = [row for row in rows if "left_out" not in row]
    built.sort(key=lambda row: (row[LOSS] is None, row[LOSS] or 0.0))
    parts = [
        "# Choose",
        *filter(None, [board.section()]),
        "## The Extractors at the paper's own settings",
        "![Held-out loss and the time of a training step, six mixers](images/answer.svg)",
        decision(),
        "## For your need",
        f"Which mixer for which need, by the rows of one comparison ([rows](../results/{path.name})) and nothing else: "
        f"{_sizes(rows[0])}. [Ties](#limits-of-these-rows) are defined below.",
        _needs(needs(built)),
        "## Every mixer",
        _all(built),
        "## Limitations",
        _limitations(built, rows),
        "## Limits of these rows",
        _caveats(rows[0], built),
        f"```sh\n{rows[0]['command']}\n```",
        "This page is generated: `python -m docs.making.choose OUT`, then `make pages`.",
    ]
    return "\n\n".join(parts) + "\n"


def _sizes(row: Row) -> str:
    seeds = "one seed" if row["seeds"] == 1 else f"{row['seeds']} seeds"
    amount = f"{row['batches']:,} batches of {row['batch']:,} rows of {row['context']:,} tokens"
    return f"preset `{row['preset']}`, {amount}, {seeds}, {row['text']}; {row['machine']}, commit {row['commit']}"


def _needs(known: Sequence[Need]) -> str:
    lines = [(need.name, f"**{need.best}** {need.details}", need.rule) for need in known]
    return markdown(("you need", "take", "by"), lines)


def _all(rows: Sequence[Row]) -> str:
    numbers = [
        name for name in rows[0] if name not in (*SHARED, *ORIGIN, "contender", "kind", "text", "limitations", LOSSES)
    ]
    shown = [name for name in numbers if any(row[name] is not None for row in rows)]
    return markdown(("mixer", *shown), [(row["contender"], *(cell(name, row[name]) for name in shown)) for row in rows])


def _limitations(built: Sequence[Row], rows: Sequence[Row]) -> str:
    lines = [(row["contender"], "; ".join(row["limitations"])) for row in built if row["limitations"]]
    lines += [(row["contender"], f"be built at this size: {row['left_out']}") for row in rows if "left_out" in row]
    return markdown(("mixer", "it cannot"), lines) if lines else "No limitation was found."


def _caveats(row: Row, built: Sequence[Row]) -> str:
    several = any(len(other[LOSSES]) > 1 for other in built)
    losses = (
        "Held-out losses are tied where their difference to the lowest is not settled: from at least "
        f"{FEWEST} seeds, a p below {LEVEL} after Holm's correction (Welch's procedure)."
        if several
        else "Each held-out loss was observed once. One seed has no interval and decides nothing, so no loss is "
        "settled to be lower than another, and no ties are given: the next ones are listed in the order of this run."
    )
    notes = [
        losses,
        f"Ties are times within {TIE['time']:.0%} of the lower one; shares of right answers within {TIE['right']}; "
        "other numbers only where they are equal. Tied mixers are not ranked here.",
        f"“Nearly the lowest loss” is an observed loss of at most {NEAR:.0%} above the lowest.",
        f"A training loss is the median over the last {row['stretch']:,} batches.",
        f"One size, one text and one length of training ({_sizes(row)}): with others the order may differ.",
        "All have the same training settings, none tuned for its mixer; each kind has its own defaults.",
    ]
    if any(name.startswith(TIME) for name in built[0]):
        notes.append(
            "Tokens after long texts are timed in freshly initialized models without positions, one model at a time."
        )
    if any(name.endswith(" right") for name in built[0]):
        notes.append(
            "Probes are tasks for small models that were trained on that task alone, at the easiest difficulty and one "
            f"learning rate, for {row['probe_batches']:,} batches at most: they show which models learn the task soon, "
            "not which never do."
        )
    return "\n".join(f"- {note}" for note in notes)


def main() -> int:
    """Exit code 2 where there is no such comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="the --out of seqloom compare --all")
    out = parser.parse_args().out
    return exit_code(lambda: [f"{store(out)} rows in results/{ROWS.name}; make pages writes the page"])


if __name__ == "__main__":
    sys.exit(main())
