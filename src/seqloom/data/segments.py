"""Consecutive segments of a text, for models that carry their state from step to step.

The text is divided into B stretches of S segments of W ids. At step s of an epoch, row b reads segment s of its stretch
and the next id, which is the target of the segment's last. Every epoch assigns the stretches to the rows at random and
starts at another random offset, so that different ids are left out at the ends. A batch depends on (seed, step) alone.
"""

from typing import final

import numpy as np
import torch
from torch import Tensor

from seqloom.core.seeds import require_seed
from seqloom.data.permutation import permute
from seqloom.data.tokens import Tokens


@final
class Segments:
    """Consecutive segments of `width` ids in `rows` rows. They cross documents, which end with `<eos>`.

    Raises ValueError where the text is shorter than one segment for each row.
    """

    steps: int
    """S, the steps of an epoch"""

    def __init__(self, tokens: Tokens, width: int, rows: int, seed: int) -> None:
        if width < 1 or rows < 1:
            raise ValueError(f"segments need a width and rows of at least 1, not {width} and {rows}")
        require_seed(seed)
        self._ids = tokens.ids
        self._width = width
        self._rows = rows
        self._seed = seed
        self.steps = (len(tokens) - 1) // (rows * width)
        if self.steps < 1:
            raise ValueError(
                f"{len(tokens):,} tokens are less than {rows:,} rows of {width:,} + 1: add text, or lower "
                "training.batch or model.context"
            )
        self._spare = len(tokens) - 1 - rows * self.steps * width

    def batch(self, step: int) -> tuple[Tensor, bool]:
        """The ids (B, W + 1) of a step, int64, and whether they begin their stretches. Inputs are [:, :-1]."""
        epoch, segment = divmod(step, self.steps)
        stretch = permute(np.arange(self._rows), epoch, self._rows, self._seed)
        offset = permute(0, epoch, self._spare + 1, self._seed)
        first = offset + (stretch * self.steps + segment) * self._width
        ids = self._ids[first[:, None] + np.arange(self._width + 1)]
        return torch.from_numpy(ids.astype(np.int64)), segment == 0
