"""The precision of a run: which one `auto` stands for, and how matrices are multiplied in a training step.

    auto   tf32 on a GPU, float32 elsewhere, chosen at the first start of a run, which keeps it wherever it goes on
    tf32   float32 weights, whose products a GPU rounds to 10 bits after the point and sums in float32

Source: torch.set_float32_matmul_precision, of which tf32 is `high`; a processor without TF32 multiplies in float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from seqloom.training.config import TrainConfig


def resolve_precision(config: TrainConfig, device: torch.device, earlier: str | None) -> TrainConfig:
    """The settings with the precision that `auto` stands for: `earlier`, in which the run began, or the device's."""
    if config.precision != "auto":
        return config
    chosen = earlier or ("tf32" if device.type == "cuda" else "float32")
    return config.model_copy(update={"precision": chosen})


@contextmanager
def matrix_products(config: TrainConfig) -> Iterator[None]:
    """Inside the block matrices of float32 are multiplied as the precision says, `auto` being resolved."""
    assert config.precision != "auto"
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if config.precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
