"""What an Extractor saves for its gradients: at most two tensors of its input's size, and one per projection."""

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds
from seqloom.ops import backends

MOST = {"she": 2 + 2, "he": 2 + 3, "we": 2 + 2, "me": 2, "he_extraction": 2 + 1}
BACKENDS = [name for name in ("fft", "native", "spectral") if name not in backends.lacking("lag_sum")]
T, D, ROWS = 64, 32, 8


def kept(mixer: Mixer, rows: int) -> int:
    """Bytes, each tensor once however often it is kept."""
    result: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        result[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(rows, T, D, requires_grad=True)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        y = mixer(x)
    y.sum().backward()
    assert x.grad is not None
    return sum(result.values())


@pytest.mark.parametrize("kind", MOST)
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_what_each_row_adds(kind: str, backend: str | None) -> None:
    """By difference, so that weights and what is made of them alone do not count."""
    if kind == "she" and backend == "native":
        return
    mixer = kinds()[kind]().build(D, T)
    with backends.use(**({"lag_sum": backend} if backend else {})):
        added = kept(mixer, 2 * ROWS) - kept(mixer, ROWS)
    assert 0 < added <= MOST[kind] * ROWS * T * D * 4
