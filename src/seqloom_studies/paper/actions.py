"""The work of `seqloom study paper`: the plan, the runs, and then each figure as rows, page and table."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core.seeds import require_count
from seqloom.core.table import table
from seqloom.studies.command import typed_command
from seqloom.studies.plan import plan
from seqloom.studies.results import Results
from seqloom.studies.runner import Workers, known_results, run
from seqloom.studies.study import Stopped
from seqloom_studies.paper import counted, page, replication, tables, writings
from seqloom_studies.paper.cells import Paper, failures
from seqloom_studies.paper.claims import decide_claims
from seqloom_studies.paper.compared import Compared
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.page_rows import Study as Rows
from seqloom_studies.paper.page_rows import read
from seqloom_studies.paper.page_table import columns, table_rows
from seqloom_studies.paper.rows import write
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.studies import STUDIES, find_studies
from seqloom_studies.paper.study import Study


@final
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    scale: str
    out: Path | None
    source: str | None
    plan: bool
    seeds: int | None
    batches: int | None
    only: tuple[str, ...]
    sets: tuple[str, ...]
    allow_drift: bool


def run_replication(names: Sequence[str], options: Options, workers: Workers) -> int:
    """Runs the command and returns the exit code: of a signal if one stopped it, 2 where a run failed."""
    figures, table_names = find_studies(names)
    scale = scale_of(options.scale)
    if options.seeds is not None:
        require_count(options.seeds, "--seeds")
    if options.batches is not None and options.batches < 1:
        raise ValueError(f"--batches must be at least 1, not {options.batches}")
    counted_tables = [name for name in table_names if name != "table2"]  # they need no training
    if counted_tables:
        print("\n\n".join(tables.format_table(int(name.removeprefix("table"))) for name in counted_tables))
        print("\n".join(["", *counted.about(counted_tables)]))
    if not figures and counted_tables == table_names:
        return 0
    out = options.out or Path("runs") / f"paper-{options.scale}"
    grid = Grid(scale, out, source=options.source, sets=options.sets, batches=options.batches)
    studies = [(STUDIES[name](grid).only(options.only), options.seeds or scale.seeds.get(name, 1)) for name in figures]
    writers = writings.cells(grid) if "table2" in table_names else []
    paper = Paper(grid, studies, writers, raced=workers.cluster is None, allow_drift=options.allow_drift)
    print(f"{plan(paper.study, out, workers)}\n", flush=True)
    if options.plan:
        return 0
    code = 0
    try:
        results = run(paper.study, out, workers, command=typed_command())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        code, results = stopped.code, known_results(paper.study, out)
    for study, seeds in studies:
        _show(paper, study, seeds, results)
    if writers and code == 0:
        print("\nTable 2: generated texts, top-p 0.6\n")
        print("\n\n".join(_text_of(writing) for writing in writings.write(grid, typed_command())))
    print(f"all claims over these studies are in {replication.write(grid.out)}")
    failed = failures(results)
    for name, why in failed.items():
        print(f"seqloom: {name} failed: {why}", file=sys.stderr)
    return code or (2 if failed else 0)


def _show(paper: Paper, study: Study, seeds: int, results: Results) -> None:
    """Writes the rows and the page of a study, and prints its table."""
    grid = paper.grid
    raced = paper.seconds(study, results)
    write(grid, study, seeds, command=typed_command(), failed=failures(results), raced=raced)
    rows = grid.out / f"{study.name}.jsonl"
    path, result = page.write(rows), read(rows)
    head = ["model", *(column.name for column in columns(result))]
    body = table(head, [[line.series, *row] for line, row in table_rows(result)])
    note = Compared(result, "held_out").smallest_difference
    print("\n".join([study.heading, " ".join(page.caption(result)), "", body, note, *result.figure.notes]))
    print("\n".join(["", *page.conclusion(result), *_claims(result)]))
    print(f"\nthe figure is {path}, its rows are {rows}\n", flush=True)


def _claims(result: Rows) -> list[str]:
    """Each claim about a study, and below it what its rows say of it, for each loss."""
    lines = []
    for claim, by_loss in decide_claims(result).items():
        lines.append(f"\n{claim.text} ({claim.section or 'not options by the paper'})")
        lines += [f"  {loss.replace('_', '-')}: {verdict}" for loss, verdict in by_loss.items()]
    return lines


def _text_of(writing: writings.Writing) -> str:
    """A generated text of Table 2 under the name of its model, and how far its training is."""
    if writing.text is None:
        return f"{writing.name} (unfinished): no checkpoint yet"
    progress = (
        "" if writing.batches >= writing.asked else f" (unfinished: {writing.batches:,} of {writing.asked:,} batches)"
    )
    return f"{writing.name}{progress}: {writing.text}"
