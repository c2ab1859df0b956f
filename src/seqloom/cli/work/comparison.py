"""`seqloom compare` and `seqloom demo`: models trained side by side, one table, and a report of it.

With --all, every mixer of the registry: those without room are listed under the table.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final, get_args

from seqloom.analysis.covering import sentence
from seqloom.analysis.match import By, Equal
from seqloom.core.config import suggestion
from seqloom.core.statistics import smallest_significant
from seqloom.core.table import table
from seqloom.data.probes import PROBES
from seqloom.report import page
from seqloom.report.charts.draw import has_charts
from seqloom.report.comparison import TITLES, Comparison
from seqloom.report.formats import summarize
from seqloom.studies.all_mixers import all_mixers, fitting
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.columns import COLUMNS
from seqloom.studies.command import run_or_plan, typed_command
from seqloom.studies.compare import Compare, Match
from seqloom.studies.decoding import LENGTHS
from seqloom.studies.runner import Workers
from seqloom.studies.summary import write

SHARES = ("grammatical", "agreeing")


@final
@dataclass(frozen=True)
class Options:
    """The options of the command."""

    mixers: Sequence[str]
    preset: str
    changes: Sequence[str]
    source: str | None
    seeds: int
    equal: str | None
    peer: str
    by: str | None
    prompts: Sequence[str]
    every: bool
    lengths: str | None
    probes: Sequence[str] | None
    """None: all of them with --all, else none"""
    probe_batches: int
    again: Sequence[str] = ()
    """mixers whose trainings and measurements are repeated"""

    def study(self) -> Compare:
        """The study to be run. ValueError for options that do not fit."""
        for name, value, allowed in (("--match", self.equal, get_args(Equal)), ("--by", self.by, get_args(By))):
            if value is not None and value not in allowed:
                raise ValueError(f"{name} {value!r} is unknown; {suggestion(value, allowed)}")
        if self.by is not None and self.equal is None:
            raise ValueError("--by needs --match params, mul or time: it names the size that is changed")
        if self.every and self.equal is not None:
            raise ValueError("--all compares all mixers unmatched: leave out --match, or name the mixers to match")
        left_out: dict[str, str] | None = None
        if self.every:
            contenders, left_out = fitting(all_mixers(self.mixers), self.preset, self.changes, self.source, self.mixers)
        else:
            contenders = [parse_candidate(text) for text in self.mixers]
        lengths: Sequence[int] = LENGTHS if self.every else ()
        if self.lengths is not None:
            lengths = _token_counts(self.lengths)
        probes: Sequence[str] = list(PROBES) if self.every else []
        if self.probes is not None:
            probes = self.probes
        return Compare(
            contenders,
            self.preset,
            self.changes,
            self.source,
            self.seeds,
            Match(self.equal, parse_candidate(self.peer), self.by) if self.equal else None,  # type: ignore[arg-type]  # checked
            self.prompts,
            lengths,
            probes,
            self.probe_batches,
            left_out,
        )


def run_comparison(
    options: Options, out: Path, workers: Workers, *, planned: bool = False, as_json: bool = False
) -> int:
    """Prints the table and writes the report; the exit code: of a signal if one stopped it, 2 where a cell failed.

    With `as_json` it prints one JSON object in place of the table.
    """
    study = options.study()
    results = run_or_plan(study.study, out, workers, planned=planned, again=options.again)
    if isinstance(results, int):
        return results
    comparison, report = write(study, results, typed_command()), page.write(out)
    if as_json:
        print(json.dumps({"out": str(out), "report": str(report), **summarize(comparison)}))
        return 2 if results.failed else 0
    print("\n" + format_comparison(comparison))
    print(f"\nthe report is {report}")
    if not has_charts():
        print("its charts need an extra: pip install 'seqloom[report]', then seqloom report", out)
    return 2 if results.failed else 0


def format_comparison(comparison: Comparison) -> str:
    """The table of a comparison; the smallest significant difference, the sizes of matched models, mixers left out.

    Columns of lengths and of probes are a second table; on a terminal, columns that do not fit are a further table.
    """
    names = [column.name for column in comparison.columns]
    groups = ([name for name in names if name in COLUMNS], [name for name in names if name not in COLUMNS])
    parts = ["\n\n".join(_tables(comparison, group)) for group in groups if group]
    smallest = {contender.name: contender.value("could settle") for contender in comparison.contenders}
    parts.insert(1, smallest_significant(smallest, comparison.baseline, comparison.seeds))
    sized = [f"{contender.name}: {contender.matched}" for contender in comparison.contenders if contender.matched]
    failed = [
        f"{contender.name} cannot {contender.limitations[0]}"
        for contender in comparison.contenders
        if contender.value("held-out loss") is None
    ]
    missing = [f"{mixer.name} is left out: {mixer.why}" for mixer in comparison.left_out]
    covered = [
        f"{contender.name}: {sentence(contender.kind, contender.same_as, comparison.context)}"
        for contender in comparison.contenders
        if contender.same_as is not None
    ]
    notes = [*sized, *covered, *failed, *missing]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])


def _tables(comparison: Comparison, names: Sequence[str]) -> list[str]:
    """The columns as one table, or on a terminal as several tables that fit its width."""
    widest = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    tables: list[str] = []
    fitting_names: list[str] = []
    for name in names:
        if fitting_names and len(_table(comparison, [*fitting_names, name]).partition("\n")[0]) > widest:
            tables.append(_table(comparison, fitting_names))
            fitting_names = []
        fitting_names.append(name)
    return [*tables, _table(comparison, fitting_names)]


def _table(comparison: Comparison, names: Sequence[str]) -> str:
    rows = [
        [contender.name, *(_cell(name, contender.value(name)) for name in names)] for contender in comparison.contenders
    ]
    return table(["model", *(TITLES.get(name, name) for name in names)], rows)


def _token_counts(lengths: str) -> list[int]:
    words = lengths.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(f"--lengths must be numbers of tokens, e.g. 128,1024,8192,65536, not {lengths!r}")
    return [int(word) for word in words]


def _cell(name: str, value: object) -> object:
    is_share = name in SHARES or name.endswith(" right")
    return f"{value:.0%}" if is_share and value is not None else value
