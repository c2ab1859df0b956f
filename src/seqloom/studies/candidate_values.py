"""The values of a contender's line in the table of a comparison, from its rows."""

from dataclasses import dataclass
from typing import Any, final

import torch

from seqloom.core.statistics import Difference, mean, mean_of
from seqloom.studies.candidate_cell import Trained
from seqloom.studies.candidates import Candidate
from seqloom.studies.columns import STATISTICS
from seqloom.studies.race import Times
from seqloom.studies.results import Results
from seqloom.studies.samples import Samples
from seqloom.training.config import RunConfig

Values = dict[str, Any]


@final
@dataclass
class CandidateValues:
    """A contender with its rows."""

    contender: Candidate
    config: RunConfig
    results: Results

    @property
    def runs(self) -> list[Trained]:
        """The runs that were trained to their end without a NaN loss."""
        return [row for row in self._trained_runs if row.failed is None]

    @property
    def failure(self) -> str | None:
        """The reason why the contender has no values: a loss became NaN, or every run failed. None where it has."""
        diverged = next((row.failed for row in self._trained_runs if row.failed is not None), None)
        if diverged is not None or self.runs:
            return diverged
        prefix = f"{self.contender.name}/seed-"
        return next((why for name, why in self.results.failed.items() if name.startswith(prefix)), "it was not trained")

    @property
    def kinds(self) -> set[str]:
        """The kinds of mixers in its layers; the kind of a model without layers."""
        return {mixer.kind for mixer in self.config.model.mixers} or {self.config.model.kind}

    @property
    def samples(self) -> Samples | None:
        """The row of `samples` for its first trained model; None where there is none."""
        return next((row for row in self.results.of(Samples) if row.contender == self.contender.name), None)

    @property
    def times(self) -> Times | None:
        """The times of its training step and token; None where there are none."""
        return next((row for row in self.results.of(Times) if row.contender == self.contender.name), None)

    @property
    def _trained_runs(self) -> list[Trained]:
        return [row for row in self.results.of(Trained) if row.contender == self.contender.name]


def quality(run: Trained) -> Values:
    """The values of one run in the table; None for columns that its objective does not have."""
    return {
        "held-out loss": run.held_out,
        "bits a byte": run.bits_per_byte,
        "right": run.accuracy,
        "training loss": run.training,
    }


def _mean(values: list[float | None]) -> float | None:
    """The mean over the runs; None where a run has no value."""
    present = [value for value in values if value is not None]
    return mean(present) if len(present) == len(values) else None


def table_values(entry: CandidateValues, difference: Difference | None) -> Values:
    """The values of the table's columns, of which the baseline and comparisons of one seed lack some (None)."""
    rows = [quality(run) for run in entry.runs]
    estimate = difference and difference.estimate
    statistics = (
        mean_of([float(run.held_out or 0.0) for run in entry.runs]).half,
        estimate and estimate.mean,
        estimate and estimate.half,
        difference and difference.adjusted,
        difference and difference.smallest,
    )
    parameters, operations = size_and_operations(entry.config)
    times, portrait = entry.times, entry.samples
    grammar = {name: getattr(portrait, name) for name in ("grammatical", "agreeing")} if portrait else {}
    return {
        **{name: _mean([row[name] for row in rows]) for name in rows[0]},
        **dict(zip(STATISTICS, statistics, strict=True)),
        "parameters": parameters,
        "operations a token": operations // entry.config.model.context,
        "state bytes": portrait and portrait.state_bytes,
        "table bytes": portrait and portrait.table_bytes,
        "ms a step": None if times is None or times.step is None else 1e3 * times.step,
        "peak MB a step": None if times is None or times.peak is None else times.peak / 1e6,
        "ms a generated token": None if times is None or times.token is None else 1e3 * times.token,
        **{name: value for name, value in grammar.items() if value is not None},
    }


def size_and_operations(config: RunConfig) -> tuple[int, int]:
    """The number of trainable parameters, and the operations of the equation for a text that fills the window."""
    with torch.device("meta"):
        model = config.model.build()
    return sum(parameter.numel() for parameter in model.parameters()), model.cost(config.model.context).total
