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
from typing import Any

from docs.making.command import exit_code
from docs.making.results import RESULTS
from docs.making.template import render
from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.core.table import format_cell
from seqloom.mixers import kinds
from seqloom.report.comparison import LOSS
from seqloom.report.measured import LOSSES, RIGHT, TIME_AT, Measured
from seqloom.report.needs import NEAR, TIE, needs
from seqloom.report.stored import read_rows, write_rows
from seqloom_studies.board import short

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
    first = built[0]
    described = (*SHARED, *ORIGIN, "contender", "kind", "text", "limitations", LOSSES)
    columns = [name for name in first if name not in described and any(row[name] is not None for row in built)]
    limitations = [(row["contender"], "; ".join(row["limitations"])) for row in built if row["limitations"]]
    limitations += [
        (row["contender"], f"be built at this size: {row['left_out']}") for row in rows if "left_out" in row
    ]
    return render(
        "choose",
        first_choice=None if (six := short.newest(RESULTS)) is None else six.first_choice,
        file=path.name,
        sizes=_sizes(rows[0]),
        needs=needs([Measured.from_row(row) for row in built]),
        missing=_missing(rows),
        columns=("mixer", *columns),
        mixers=[(row["contender"], *(_cell(name, row[name]) for name in columns)) for row in built],
        limitations=limitations,
        several_seeds=any(len(row[LOSSES]) > 1 for row in built),
        fewest_seeds=FEWEST,
        level=LEVEL,
        tied_times=f"{TIE['time']:.0%}",
        tied_shares=TIE["right"],
        near=f"{NEAR:.0%}",
        stretch=f"{rows[0]['stretch']:,}",
        has_times=any(name.startswith(TIME_AT) for name in first),
        has_probes=any(name.endswith(RIGHT) for name in first),
        probe_batches=f"{rows[0]['probe_batches'] or 0:,}",
        command=rows[0]["command"],
    )


def _cell(column: str, value: float | None) -> str:
    """A number of a column as text; shares of right answers in percent."""
    return f"{value:.1%}" if value is not None and column.endswith(RIGHT) else format_cell(value)


def _missing(rows: Sequence[dict[str, Any]]) -> str:
    """How many of the mixers that a decoder can have are without a row, in words; "" for none."""
    there = {row["kind"] for row in rows if "kind" in row} | {row["contender"] for row in rows}
    causal = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
    missing = [kind for kind in causal if kind not in there]
    return f"{len(missing)} of the {len(causal)} mixers that a decoder can have" if missing else ""


def _sizes(row: dict[str, Any]) -> str:
    """What was run: preset, batches, seeds, text, machine and commit."""
    seeds = "one seed" if row["seeds"] == 1 else f"{row['seeds']} seeds"
    amount = f"{row['batches']:,} batches of {row['batch']:,} rows of {row['context']:,} tokens"
    return f"preset `{row['preset']}`, {amount}, {seeds}, {row['text']}; {row['machine']}, commit {row['commit']}"


def main() -> int:
    """Exit code 2 where there is no such comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="the --out of seqloom compare --all")
    out = parser.parse_args().out
    return exit_code(lambda: [f"{store(out)} rows in results/{ROWS.name}; make pages writes the page"])


if __name__ == "__main__":
    sys.exit(main())
