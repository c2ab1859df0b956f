"""How fast a run trains: tokens and the model's operations a second, as a share of its card's fastest product.

    operations a second = 3 · price of a row / tokens of a row · tokens a second

The price is the model's own (`Model.cost`): a step computes it once forward and about twice backward. What a step
computes besides, such as the optimizer or a forward that is computed again, is not the model's and does not count.
"""

from typing import Final, final

import torch

from seqloom.analysis.peaks import peak_of
from seqloom.core.objective import Batch, Row
from seqloom.training.loop import Update
from seqloom.training.step import Learner

PASSES: Final = 3
"""a forward, and a backward of twice its operations"""


@final
class Throughput:
    """The speed of steps whose batches are like `batch`, in `precision`, by `processes` of them on a device each."""

    def __init__(self, learner: Learner, batch: Batch, precision: str, processes: int) -> None:
        device = learner.model.device
        self._card = device if device.type == "cuda" else None
        peak = None if self._card is None else peak_of(torch.cuda.get_device_name(device), precision)
        self._peak = None if peak is None else processes * peak
        row = learner.objective.row_size(batch)
        self._operations = None
        """of a token"""
        if row is not None and not learner.model.config.fits:
            tokens, outputs = row
            self._operations = PASSES * learner.model.cost(tokens, outputs=outputs).total / tokens

    def row(self, update: Update) -> Row:
        """The speed of a step, for `metrics.jsonl`: `tflops` are 10¹² of the model's operations a second."""
        tokens_per_second = update.tokens / update.seconds
        row: Row = {"tokens_per_second": round(tokens_per_second, 1)}
        if self._operations is not None:
            per_second = self._operations * tokens_per_second
            row["tflops"] = float(f"{per_second / 1e12:.4g}")
            if self._peak is not None:
                row["peak_share"] = round(per_second / self._peak, 4)
        return row

    def note(self, row: Row) -> str:
        """The same in words, for the progress line."""
        words = f"{row['tokens_per_second']:,.0f} tokens/s"
        if self._peak is not None and "peak_share" in row:
            return f"{words}, {row['peak_share']:.1%} of {self._peak / 1e12:,.0f} TFLOP/s"
        return f"{words}, {row['tflops']:,.1f} TFLOP/s" if self._card is not None and "tflops" in row else words

    def memory(self) -> Row:
        """The most memory that the process has had on its GPU so far, in bytes; nothing elsewhere."""
        return {} if self._card is None else {"peak_bytes": torch.cuda.max_memory_allocated(self._card)}
