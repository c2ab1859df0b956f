"""A pass without gradients over batch after batch: on a GPU recorded once as a CUDA graph, and replayed.

The values are those of the pass as it is. Batches of another shape, such as a last one with fewer rows, models that
cannot be recorded and few batches run as they are.
"""

import sys
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from seqloom.core.graphs import without_reading
from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.core.recording import Recorded, fill, graphs_wanted, reason, record, takes_graphs, warm_up

FEWEST = 8
"""batches from which a recording, which takes four passes, is worth its time"""


@final
class Replayed:
    """`compute`, which gives a tensor for tensors on the model's device, over `batches` batches of tensors on the CPU.

    The weights must not be given other memory in between. `compute` runs without gradients, and its arguments are not
    checked by their values.
    """

    def __init__(self, model: Model, compute: Callable[..., Tensor], batches: int) -> None:
        self._device = model.device
        self._compute = compute
        mixers = [module for module in model.modules() if isinstance(module, Mixer)]
        reasons = [model.uncaptured_reason, *(mixer.uncaptured_reason for mixer in mixers)]
        can = takes_graphs(self._device) and not any(reasons) and not model.config.looks_up
        self._records = can and batches >= FEWEST and graphs_wanted()
        self._recorded: Recorded[Tensor] | None = None
        self._buffers: list[Tensor] = []

    def __call__(self, *tensors: Tensor) -> Tensor:
        """The result of a batch, on the CPU."""
        if self._records and self._recorded is None:
            self._record(tensors)
        if self._recorded is None or [x.shape for x in tensors] != [x.shape for x in self._buffers]:
            return self._compute(*(tensor.to(self._device) for tensor in tensors)).cpu()
        fill(self._buffers, tensors)
        self._recorded.replay()
        return self._recorded.result.cpu()

    def _record(self, tensors: tuple[Tensor, ...]) -> None:
        """Records a batch of these shapes; where that fails, says so in one line and records nothing more."""
        self._buffers = [torch.empty_like(tensor, device=self._device) for tensor in tensors]
        fill(self._buffers, tensors)
        try:
            with torch.cuda.device(self._device), without_reading():
                warm_up(lambda: self._compute(*self._buffers))
                self._recorded = record(lambda: self._compute(*self._buffers))
        except RuntimeError as error:
            self._records = False
            print(f"scoring goes on uncaptured, since the capture failed: {reason(error)}", file=sys.stderr)
