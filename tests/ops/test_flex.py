"""Sparse attention by torch's flex_attention: the result of a dense mask for every pattern; gradients on a GPU."""

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.attention import flex, sparse
from tests.ops.test_patterns import PATTERNS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = pytest.mark.skipif(DEVICE.type == "cpu", reason=flex.unavailable().get("flex", ""))
T, K = 150, 16


def drawn() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 2, T, K, generator=generator).to(DEVICE) for _ in range(3)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("lengths", [None, (T, 90)])
@pytest.mark.parametrize("name", PATTERNS)
def test_it_is_the_dense_mask(name: str, lengths: tuple[int, int] | None) -> None:
    pattern, heads = PATTERNS[name], drawn()
    kept = None if lengths is None else torch.tensor(lengths, device=DEVICE)
    with backends.use(sparse_attention="masked"):
        expected = sparse.attend(*heads, [pattern, pattern], kept)
    actual = flex.attend(*heads, pattern, kept)
    real = torch.ones(2, T, dtype=torch.bool) if lengths is None else torch.arange(T) < torch.tensor(lengths)[:, None]
    real = real[:, None, :, None].to(DEVICE)  # a dropped token's output is undefined
    torch.testing.assert_close(actual.where(real, 0), expected.where(real, 0))


@ON_GPU
@pytest.mark.parametrize("name", PATTERNS)
def test_gradients_of_flex_are_differences(name: str) -> None:
    grads = {}
    for backend in ("masked", "flex"):
        heads = [x.requires_grad_() for x in drawn()]
        with backends.use(sparse_attention=backend):
            sparse.attend(*heads, [PATTERNS[name]] * 2).square().sum().backward()
        grads[backend] = [x.grad for x in heads]
    for actual, expected in zip(grads["flex"], grads["masked"], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="there is a GPU")
def test_a_missing_verb_is_named() -> None:
    assert flex.unavailable() == {"flex": "no GPU"}
    with pytest.raises(ValueError, match=r"flex.*cannot do this"), backends.use(sparse_attention="flex"):
        sparse.attend(*drawn(), [PATTERNS["local"]] * 2)
