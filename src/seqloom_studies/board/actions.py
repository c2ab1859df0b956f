"""The actions of `seqloom study board`: print the settings, plan, train or time, and show the standings."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.studies.command import typed_command
from seqloom.studies.plan import plan
from seqloom.studies.runner import Workers, known_results, run
from seqloom.studies.study import Stopped
from seqloom.studies.summary import failures
from seqloom_studies.board import lineup as fixed
from seqloom_studies.board import page, table
from seqloom_studies.board.announced import write_announcement
from seqloom_studies.board.page_rows import Result, read_recalled, read_times
from seqloom_studies.board.rows import TIMES, finished_lines, merge, merge_times, stored_lines
from seqloom_studies.board.standing import Board as Standings
from seqloom_studies.board.standing import Lineup, Question
from seqloom_studies.board.study import Board

RECALLED = Path("results/recall_trained.jsonl")
"""rows of probes that were trained to their end"""


@final
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    data: str | None
    text: str
    changes: Sequence[str]
    results: Path
    scratch: bool
    """whether `results` is a file for tries, whose rows need no commit that can be looked at"""
    merge: bool
    race: bool
    plan: bool

    @property
    def times(self) -> Path:
        """The file of times, next to that of rows."""
        return self.results.with_name(f"{self.results.stem}_{TIMES}.jsonl")


def act(options: Options, out: Path, workers: Workers) -> int:
    """Does what the options ask for. Returns the exit code: that of a signal which stopped it, 2 where a run failed."""
    if options.merge:
        new, total = merge(out, options.results, scratch=options.scratch)
        times = merge_times(out, options.times, scratch=options.scratch)
        print(f"{new:,} new rows, {times:,} times; {options.results} holds {total:,} rows")
        show(out, options)
        return 0
    if options.data is None:
        raise ValueError("add --data: a folder of texts with their authors (see data.division)")
    board = Board(options.data, tuple(options.changes), stored_lines(options.results), fixed.TEXTS[options.text])
    print(write_announcement(board, known_results(board.study, out)), flush=True)
    study = board.race if options.race else board.study
    if options.plan:
        print(f"\n{plan(study, out, workers)}")
        return 0
    code = 0
    try:
        for line in failures(run(study, out, workers, command=typed_command())):
            print(f"seqloom: {line}", file=sys.stderr)
            code = 2
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        code = stopped.code
    show(out, options)
    return code


def show(out: Path, options: Options) -> None:
    """Prints the table and the decisions by the rows of this folder and of --results, and writes OUT/board.html."""
    lines = {**stored_lines(options.results), **finished_lines(out)}
    rows = [row for row in map(Result.model_validate, lines.values()) if row.text == options.text]
    if not rows:
        print("no run is finished yet")
        return
    board, times = Standings.of(rows, lineup()), table.Times(read_times(options.times))
    if not board.standings:
        print("no run has ended with a loss yet")
        return
    print(f"\n{table.text(board, times)}")
    print(f"\nthe page is {page.write(out / 'board.html', page.report(board, times, read_recalled(RECALLED)))}")


def lineup() -> Lineup:
    """The titles, the baseline and the questions that were fixed before the runs."""
    names = [*fixed.DECIDED, *(contender.name for contender in fixed.EXPLORATORY)]
    questions = [Question(decision.question, decision.first, decision.second) for decision in fixed.DECISIONS]
    ends = (fixed.RATES[0] / 2**fixed.FURTHER, fixed.RATES[-1] * 2**fixed.FURTHER)
    titles = {name: fixed.title(name) for name in names}
    return Lineup(titles, fixed.BASELINE, (), questions, fixed.SHARE, fixed.MARGIN, fixed.FOLDS, ends)
