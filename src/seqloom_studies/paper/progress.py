"""The progress of a cell, read from the rows of its run."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.runs.metrics import read


@final
@dataclass(frozen=True)
class Progress:
    """The rows of a run up to the batches that are asked for: (step, loss) of training and of held-out text."""

    asked: int
    losses: list[tuple[int, float]]
    held_out: list[tuple[int, float]]
    seconds: float | None
    """median seconds per batch; None before the first batch"""

    @property
    def batches(self) -> int:
        """The number of finished batches."""
        return self.losses[-1][0] if self.losses else 0

    @property
    def is_finished(self) -> bool:
        """Whether all batches are done and the held-out text is scored after them."""
        return bool(self.held_out) and self.held_out[-1][0] == self.asked

    def medians(self, stretch: int) -> list[tuple[int, int, float]]:
        """(first step, last step, median loss) of each complete stretch of `stretch` batches, without overlap."""
        stretches = [self.losses[first : first + stretch] for first in range(0, len(self.losses), stretch)]
        complete = [rows for rows in stretches if len(rows) == stretch]
        return [(rows[0][0], rows[-1][0], statistics.median(loss for _, loss in rows)) for rows in complete]


def progress(folder: Path, asked: int) -> Progress:
    """The progress of the run in a folder, which need not exist yet.

    ValueError where the run has more batches than `asked` and no score after exactly these.
    """
    path = folder / "metrics.jsonl"
    all_rows = read(path) if path.is_file() else []
    rows = [row for row in all_rows if row["step"] <= asked]
    scores = [(row["step"], float(row["held_out"])) for row in rows if row.get("held_out") is not None]
    if len(rows) < len(all_rows) and (not scores or scores[-1][0] < asked):
        trained = all_rows[-1]["step"]
        raise ValueError(
            f"{folder} was trained for {trained:,} batches, not {asked:,}: ask for as many or another --out"
        )
    losses = [(row["step"], float(row["loss"])) for row in rows if row.get("loss") is not None]
    times = [float(row["seconds"]) for row in rows if row.get("seconds") is not None]
    return Progress(asked, losses, scores, statistics.median(times) if times else None)
