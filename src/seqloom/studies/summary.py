"""Summarizes the rows of a comparison: the table, its statistics, and the samples and views of the contenders.

    comparison = summarize(study, results, command)       → OUT/comparison.json, format 2

Contenders are ordered by held-out loss. The baseline is the first contender whose layers all have self-attention.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from seqloom.analysis.covering import same_as
from seqloom.analysis.origin import origin
from seqloom.core.statistics import differences
from seqloom.evaluation.scores import unigram_entropy
from seqloom.report import comparison as report
from seqloom.runs.durable import replace
from seqloom.studies.candidate_cell import last_tenth
from seqloom.studies.candidate_values import CandidateValues, Values, quality, size_and_operations, table_values
from seqloom.studies.columns import COLUMNS, GENERATED, OPTIONAL, at_length, describe_columns, of_probe
from seqloom.studies.compare import Compare
from seqloom.studies.decoding import NO_STREAM, Token
from seqloom.studies.limitations import limitations
from seqloom.studies.probe_cell import Answers
from seqloom.studies.results import Results
from seqloom.studies.runner import Workers, run
from seqloom.training.losses import NotFinite

FILE = "comparison.json"


def compare(study: Compare, out: Path, workers: Workers | None = None, command: str = "") -> report.Comparison:
    """Runs the cells that are not done, and writes and returns the summary.

    Raises ValueError for settings that do not fit and for an OUT of other settings, NotFinite where no contender could
    be trained, and `Stopped` where a signal ended it.
    """
    results = run(study.study, out, workers, command=command)
    return write(study, results, command)


def write(study: Compare, results: Results, command: str) -> report.Comparison:
    """Writes OUT/comparison.json and returns its content."""
    comparison = summarize(study, results, command)
    hidden = set() if study.left_out is not None else {"left_out"}
    document = {"format": report.FORMAT, **comparison.model_dump(mode="json", exclude=hidden)}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    replace(results.out / FILE, text.encode())
    return comparison


def summarize(study: Compare, results: Results, command: str) -> report.Comparison:
    """The table of all contenders, by rising held-out loss; those that failed come last."""
    entries = [
        CandidateValues(contender, study.config(contender), results) for contender in study.sized_candidates(results)
    ]
    trained = [entry for entry in entries if entry.failure is None]
    if not trained:
        first = entries[0]
        raise NotFinite(f"no contender can be trained so; {first.contender.name}: {first.failure}")
    baseline = next((entry for entry in trained if entry.kinds == {"attention"}), trained[0]).contender.name
    paired = any(len({run.order for run in entry.runs}) > 1 for entry in trained)
    losses = {entry.contender.name: {run.seed: float(run.held_out or 0.0) for run in entry.runs} for entry in trained}
    to_baseline = differences(losses, dict.fromkeys(losses, baseline), paired=paired)
    values = {entry.contender.name: table_values(entry, to_baseline.get(entry.contender.name)) for entry in trained}
    trained.sort(key=lambda entry: float(values[entry.contender.name]["held-out loss"]))
    omitted = {name for name in OPTIONAL if all(row[name] is None for row in values.values())}
    if any(row.ms_per_token is not None for row in results.of(Token)):
        omitted.add(GENERATED)  # the time of a token is in the columns of lengths
    names = [name for name in COLUMNS if name in values[trained[0].contender.name] and name not in omitted]
    further_values, further_columns = _further(study, results)
    columns = [*describe_columns(names), *further_columns]
    no_values = dict.fromkeys(column["name"] for column in columns)

    def table_row(entry: CandidateValues) -> Values:
        name = entry.contender.name
        return {**no_values, **values.get(name, {}), **further_values.get(name, {})}

    failed = [entry for entry in entries if entry.failure is not None]
    config, corpus = study.base, study.corpus
    return report.Comparison(
        preset=study.preset,
        changes=list(study.changes),
        seeds=study.seeds,
        batches=config.training.batches,
        batch=config.training.batch,
        context=config.model.context,
        stretch=last_tenth(config.training.batches),
        baseline=baseline,
        paired=paired,
        origin=report.Origin(**origin(command)),
        text=report.Text(
            description=corpus.description.replace(config.data.source, Path(config.data.source).name, 1),
            identity=corpus.identity,
            held_out_tokens=len(corpus.held_out),
            held_out_documents=corpus.held_out.documents,
            unigram=unigram_entropy(corpus.held_out),
            floor=study.floor,
        ),
        columns=[report.Column(**column) for column in columns],
        equal=study.match.equal if study.match is not None else None,
        probe_batches=study.probe_batches if study.probes else None,
        contenders=[_summarize_candidate(entry, study, results, table_row(entry)) for entry in [*trained, *failed]],
        left_out=[report.LeftOut(name=name, why=why) for name, why in (study.left_out or {}).items()],
    )


def _summarize_candidate(entry: CandidateValues, study: Compare, results: Results, row: Values) -> report.Candidate:
    """A contender of the summary: its row, and what the report shows of its runs."""
    contender, model, training = entry.contender, entry.config.model, entry.config.training
    shared: Values = {
        "name": contender.name,
        "kind": " + ".join(sorted(entry.kinds)),
        "same_as": _same_as(entry),
        "matched_to": contender.matched_to,
        "matched": contender.matched,
        "row": row,
        "limitations": _limitations(entry, study),
    }
    if entry.failure is not None:
        folders = sorted(path.parent for path in (results.out / contender.name).glob("seed-*/metrics.jsonl"))
        return report.Candidate(**shared, runs=[path.relative_to(results.out).as_posix() for path in folders])
    qualities = [quality(run) for run in entry.runs]
    portrait = entry.samples
    return report.Candidate(
        **shared,
        spread={name: [run[name] for run in qualities] for name in qualities[0] if qualities[0][name] is not None},
        runs=[f"{contender.name}/seed-{run.seed}" for run in entry.runs],
        by_position=[list(run.by_position) for run in entry.runs if run.by_position],
        operations_a_batch=None if training.stages else size_and_operations(entry.config)[1] * training.batch,
        tokens_a_batch=None if training.stages else model.context * training.batch,
        seconds_a_batch=entry.times.step if entry.times is not None else None,
        samples=portrait.samples if portrait is not None else [],
        views=portrait.views if portrait is not None else [],
    )


def _same_as(entry: CandidateValues) -> str | None:
    """The mixer that the contender's own equals in every layer, if its pattern covers the context."""
    with torch.device("meta"):
        equal = same_as(entry.config.model.build())
    return next(iter(equal.values())) if len(equal) == len(entry.kinds) == 1 else None


def _further(study: Compare, results: Results) -> tuple[dict[str, Values], list[Values]]:
    """The columns of lengths and of probes, and the values of each contender in them."""
    values: dict[str, Values] = {}
    columns: dict[str, Values] = {}
    for row in sorted(results.of(Token), key=lambda row: row.tokens):
        for field, column in at_length(row.tokens).items():
            columns[column["name"]] = column
            values.setdefault(row.contender, {})[column["name"]] = getattr(row, field)
    columns = dict(sorted(columns.items(), key=lambda item: item[1]["unit"] == "bytes"))  # times, then bytes
    for name, title, accuracy, _ in _probe_accuracies(study, results):
        column = of_probe(title, study.probe_batches)
        columns[column["name"]] = column
        values.setdefault(name, {})[column["name"]] = accuracy
    return values, list(columns.values())


def _probe_accuracies(study: Compare, results: Results) -> list[tuple[str, str, float | None, str | None]]:
    """(contender, probe, accuracy, or the reason why there is none) of all probes."""
    rows = [row for row in results.of(Answers) if row.distance is None]
    answers = [(row.mixer, row.probe, row.accuracy, row.failed) for row in rows]
    return answers + [(name, title, None, why) for (name, title), why in study.probes_left_out.items()]


def _limitations(entry: CandidateValues, study: Compare) -> list[str]:
    """Short phrases that follow "it cannot"."""
    name = entry.contender.name
    tokens = [row for row in entry.results.of(Token) if row.contender == name and row.why not in (None, NO_STREAM)]
    return [
        *([f"be trained so: {entry.failure}"] if entry.failure is not None else []),
        *limitations(entry.config.model),
        *(f"write after {row.tokens:,} tokens: {row.why}" for row in tokens),
        *(
            f"do {title}: {why}"
            for probed, title, _, why in _probe_accuracies(study, entry.results)
            if probed == name and why
        ),
    ]


def failures(results: Results) -> Sequence[str]:
    """A line for each cell that failed."""
    return [f"{name} failed: {why}; the same command tries it again" for name, why in results.failed.items()]
