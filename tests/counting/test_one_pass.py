"""C code that goes over memory once has the price of its equations, counted as torch executes them."""

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.ops import backends
from seqloom.ops.fused import gated_decay, gated_norm, small_blocks
from seqloom.ops.fused.short_convolution import convolve
from seqloom.ops.recurrence import gru
from seqloom.ops.recurrence.slstm import slstm
from tests.ops.needing import needs_native

pytestmark = needs_native


def ones(*sizes: int) -> Tensor:
    return torch.ones(sizes)


CASES = {
    "short_convolution": lambda: convolve(ones(2, 5, 3), ones(4, 3), ones(3)),
    "small_blocks": lambda: small_blocks.products(ones(2, 3, 8), ones(2, 4, 4)),
    "gated_norm": lambda: gated_norm.normalize(ones(2, 3, 4, 5), ones(2, 3, 20), ones(5), 0.1, "silu"),
    "gated_decay": lambda: gated_decay.gate_decay(ones(2, 3, 8), ones(2, 4, 8), ones(2, 8), ones(8), False),
    "recurrence": lambda: gru(ones(2, 3, 4), ones(24, 4), ones(24), ones(24, 8)),
    "slstm": lambda: slstm(ones(2, 3, 2, 16), ones(2, 4, 16), ones(2, 16)),
}


@pytest.mark.parametrize("op", CASES)
def test_c_costs_what_the_reference_does(op: str) -> None:
    found = []
    for name in ("native", "reference"):
        with torch.no_grad(), backends.use(**{op: name}):
            found.append(count(CASES[op]))
    native, reference = found
    assert native.total == pytest.approx(reference.total, rel=0.1)
    assert any(each.endswith("_forward") for each in native.ops)
