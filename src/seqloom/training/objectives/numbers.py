"""Numbers: the targets of a series, from the numbers up to their time.

    loss = mean of -ln p((y - μ')/σ')                         head=gaussians: nats per number
    loss = mean of ((y - ŷ)/σ')²                              head=mean

μ', σ': mean and deviation of each target. The score also has the root of the mean squared error of the expected targets
in the units of the data, and, where the best prediction is known, that of the best one.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, final

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.series import Rows, Series, identity_of, read_series
from seqloom.data.series.file import FileSeries, NumberTable
from seqloom.data.tokens import Tokens
from seqloom.models.regressor_config import RegressorConfig
from seqloom.training.objectives.config import ObjectiveConfig, Prepared
from seqloom.training.objectives.text import WINDOWS

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig

ROWS = 512
"""the most rows of a score"""
COLUMN = "text"
"""the default of data.column, by which all columns are read"""


@final
class NumbersConfig(ObjectiveConfig):
    """Predicts numbers."""

    kind: Literal["numbers"] = "numbers"
    made_for: ClassVar = "regressor"
    sized_by_data: ClassVar = True

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "numbers have", (*WINDOWS, "labels", "passage", "tokenizer", "vocab")

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        """The settings with what follows from the series: its columns, and how they are scaled."""
        run = super().prepare(run).config
        model = cast(RegressorConfig, run.model)
        return Prepared(run.model_copy(update={"model": model.with_series(series_of(model, run.data))}), None)

    @override
    def data_identity(self, data: DataConfig) -> str:
        """That of the series, whose context is a setting of the model."""
        return identity_of(data.source, data.held_out, _column(data))

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Numbers":
        return Numbers(series_of(cast(RegressorConfig, model), data), rows)

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        config = cast(RegressorConfig, model)
        values = np.random.default_rng(0).standard_normal((4 * config.context + 4, max(len(config.columns), 1)))
        names = config.columns or ("x",)
        return Numbers(FileSeries(NumberTable(values, names), config.context, 0.25, "noise"), rows)


@final
class Numbers(Objective):
    """Rows of a series, `rows` per step."""

    def __init__(self, series: Series, rows: int) -> None:
        super().__init__()
        self.series = series
        self.rows = rows

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The tensors of `tensors_of`."""
        return tensors_of(self.series.rows(seed, step, self.rows))

    @override
    def targets(self, batch: Batch) -> int:
        """The times whose predictions count."""
        return int(batch["scored"].sum())

    @override
    def count_tokens(self, batch: Batch) -> int:
        """The times that are read."""
        return batch["ids"].numel()

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "the predictions that count are chosen by a mask"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a number."""
        outputs, extras = model.outputs_with_extras(batch["ids"], None, batch["values"])
        scored = batch["scored"]
        return Pass({"loss": model.losses(outputs[scored], batch["targets"][scored]).mean()}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss of held-out numbers, the root of the mean squared error of each target, and that of the best.

        `held_out` is a series in place of the run's own. ValueError where its columns are not those of the model.
        """
        series = self.series if held_out is None else held_out
        require_same(model.config, series)
        rows = series.held_out(ROWS)
        losses: list[Any] = []
        errors: list[Any] = []
        with Rest(model), torch.no_grad():
            for begin in range(0, len(rows.values), self.rows):
                cpu_batch = tensors_of(rows, slice(begin, begin + self.rows))
                batch = {name: tensor.to(model.device) for name, tensor in cpu_batch.items()}
                outputs = model.outputs_with_extras(batch["ids"], None, batch["values"])[0][batch["scored"]]
                targets = batch["targets"][batch["scored"]]
                losses.append(model.losses(outputs, targets).double().cpu())
                errors.append((model.expect(outputs).double() - targets.double()).cpu())
        row: Row = {"held_out": float(torch.cat(losses).mean()), "numbers": sum(loss.numel() for loss in losses)}
        row["rmse"] = root_mean_squares(torch.cat(errors).numpy(), series)
        if rows.optimum is not None:
            row["rmse_of_the_best"] = root_mean_squares((rows.optimum - rows.targets)[rows.scored], series)
        return row

    @override
    def summary(self, row: Row) -> str:
        """The loss, and the error of each target."""
        errors = ", ".join(f"{name} {format_cell(error)}" for name, error in row["rmse"].items())
        return f"held-out loss {format_cell(row['held_out'])} per number; root mean squared error: {errors}"


def series_of(model: RegressorConfig, data: DataConfig) -> Series:
    """The series of these settings. Raises as `read_series` does."""
    return read_series(data.source, model.context, data.held_out, _column(data))


def require_same(model: RegressorConfig, series: Series) -> None:
    """ValueError where a series has other columns than the model learned."""
    for name, own, given in (("reads", model.columns, series.columns), ("predicts", model.targets, series.outputs)):
        if own != given:
            raise ValueError(
                f"{series.name} has the columns {', '.join(given)}, and the model {name} {', '.join(own)}: give these"
            )


def root_mean_squares(errors: "np.ndarray", series: Series) -> dict[str, float]:
    """The root of the mean square of errors (N, Y), by target."""
    return {name: float(error) for name, error in zip(series.outputs, np.sqrt((errors**2).mean(0)), strict=True)}


def tensors_of(rows: Rows, part: slice = slice(None)) -> Batch:
    """`ids` (B, T), all 0; `values` (B, T, C) and `targets` (B, T, Y) in float32; `scored` (B, T)."""
    values = torch.from_numpy(rows.values[part].astype(np.float32))
    targets = torch.from_numpy(rows.targets[part].astype(np.float32))
    ids = torch.zeros(values.shape[:2], dtype=torch.long)
    return {"ids": ids, "values": values, "targets": targets, "scored": torch.from_numpy(rows.scored[part].copy())}


def _column(data: DataConfig) -> str | None:
    return None if data.column == COLUMN else data.column
