"""Models of equal parameters that predict series of numbers, next to the best prediction where it is known.

    error = √(mean of ((y - ŷ)/σ)²),   ŷ the expected number, σ the deviation of the targets        of held-out rows
    error of the best = the same of the best prediction: the Kalman filter's on a linear system, 0 on the adding problem

    study = NumbersStudy([parse_candidate("s5"), parse_candidate("he")], ("numbers:linear:4",))
    rows = run(study.study, Path("runs/numbers")).of(Predicted)

All models read the same rows in the same order; a wider feed-forward network gives each as many parameters as the
largest has. Where the next number is predicted, a path of `AHEAD` times is forecast from held-out history.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from seqloom.analysis.match import match, quantity
from seqloom.core.layered import LayeredConfig
from seqloom.core.seeds import require_count
from seqloom.evaluation.forecast import forecast
from seqloom.face import load
from seqloom.models.regressor import require_regressor
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, folder_name, require_distinct
from seqloom.training.config import RunConfig
from seqloom.training.objectives.numbers import series_of
from seqloom.training.preparation import identity, prepare_run
from seqloom.training.settings import resolve

PRESET = "regressor/small"
AHEAD = 32
"""the most times of a forecast; at most a quarter of the context"""
PATHS = 400
QUANTILES = (0.05, 0.5, 0.95)


@final
class Predicted(Row):
    """The error of one model on one series; None where its training `failed`."""

    mixer: str
    source: str
    seed: int
    lr: float
    batches: int
    batch: int
    context: int
    dim: int
    depth: int
    parameters: int
    held_out: float | None
    """loss per number"""
    error: float | None
    best: float | None
    """the error of the best prediction; None where it is not known"""
    forecast: list[list[float]] | None
    """of the first target, at each time: what was observed, and quantiles of the forecast paths"""
    history: list[float] | None
    """what was observed before the forecast"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class NumbersCell(RunCell):
    """A model trained on a series."""

    schema: ClassVar = Predicted
    unplanned: ClassVar = "forecasts"
    mixer: str

    def read(self, run: Run, failed: str | None) -> list[Predicted]:
        """One row: errors on held-out rows, and a forecast."""
        shared: dict[str, Any] = {
            **self.describe_training(),
            "mixer": self.mixer,
            "context": self.config.layered_model.context,
        }
        if failed is not None:
            nothing = dict.fromkeys(("held_out", "error", "best", "forecast", "history"))
            return [Predicted(**shared, **nothing, failed=failed)]
        score = [row for row in read(run.metrics) if "held_out" in row][-1]
        error, best = (self._scale_errors(score.get(name)) for name in ("rmse", "rmse_of_the_best"))
        history, ahead = self._forecast(run)
        return [
            Predicted(**shared, held_out=score["held_out"], error=error, best=best, forecast=ahead, history=history)
        ]

    def _scale_errors(self, errors: dict[str, float] | None) -> float | None:
        """The root of the mean square of errors by target, each divided by its deviation."""
        if errors is None:
            return None
        deviations = np.array(self.config.model.target_deviation)  # type: ignore[attr-defined]  # every regressor has it
        return float(np.sqrt(np.mean((np.array([*errors.values()]) / deviations) ** 2)))

    def _forecast(self, run: Run) -> tuple[list[float] | None, list[list[float]] | None]:
        """The last times of the history, and the forecast after it; None of a series that is not forecast."""
        model = require_regressor(load(run.folder))
        series = series_of(model.config, self.config.data)
        if not series.forecasts or model.config.head != "gaussians":
            return None, None
        rows = series.held_out(1)
        observed = np.concatenate([rows.values[0], rows.targets[0, -1:]])
        ahead = max(1, min(AHEAD, model.config.context // 4))
        paths = forecast(model, observed[:-ahead], ahead, paths=PATHS)
        quantiles = np.quantile(paths[:, :, 0], QUANTILES, axis=0)
        lines = np.column_stack([observed[-ahead:, 0], *quantiles])
        return observed[-3 * ahead : -ahead, 0].tolist(), lines.tolist()

    def text(self, rows: Sequence[Predicted]) -> str:
        """The error, and that of the best prediction."""
        (row,) = rows
        if row.error is None:
            return row.failed or "no error"
        return f"error {row.error:.4g}" + ("" if row.best is None else f", of the best {row.best:.4g}")


@final
@dataclass(frozen=True)
class NumbersStudy:
    """The mixers and the series. ValueError for repeated values and settings that do not fit."""

    mixers: Sequence[Candidate]
    sources: Sequence[str]
    batches: int = 1000
    lrs: Sequence[float] = (3e-3,)
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [mixer.name for mixer in self.mixers]
        require_distinct(
            "numbers",
            {"mixers": names, "series": [folder_name(source) for source in self.sources], "learning rates": self.lrs},
        )
        require_count(self.seeds)

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other mixers and series may be added."""
        return Study("numbers", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        yield [
            self._cell(mixer, source, lr, seed)
            for source in self.sources
            for seed in range(self.seeds)
            for lr in self.lrs
            for mixer in self.mixers
        ]

    def config(self, mixer: Candidate, source: str, lr: float, seed: int) -> RunConfig:
        """The settings of a model on a series, with as many parameters as the largest of the models has."""
        config = self._prepare(mixer, source, lr, seed)
        models = [self._prepare(other, source, lr, seed).layered_model for other in self.mixers]
        largest = max(models, key=lambda model: quantity(model, "params"))
        sized: LayeredConfig = match(config.layered_model, largest, equal="params", by="ffn").config
        return config.model_copy(update={"model": sized})

    def _prepare(self, mixer: Candidate, source: str, lr: float, seed: int) -> RunConfig:
        varied = [f"training.batches={self.batches}", f"training.lr={lr}", f"training.seed={seed}"]
        return prepare_run(resolve(PRESET, [*varied, *self.changes, *mixer.changes], source)).config

    def _cell(self, mixer: Candidate, source: str, lr: float, seed: int) -> NumbersCell:
        config = self.config(mixer, source, lr, seed)
        return NumbersCell(
            name=f"{folder_name(source)}/{mixer.name}/lr-{lr:g}-seed-{seed}",
            config=config,
            identity=identity(config, None),
            allow_drift=True,
            mixer=mixer.name,
        )
