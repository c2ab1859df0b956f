"""One token of attention over a ring in C: equal to `attend` over the used slots, for any sizes and any threads."""

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.attention import attend, cached, causal
from seqloom.ops.past import ring
from tests.ops.needing import needs_native

pytestmark = needs_native
WIDTH = {torch.float64: 8, torch.float32: 16}
"""numbers of a vector"""


def drawn(*sizes: int, dtype: torch.dtype, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*sizes, generator=generator, dtype=torch.float64) * scale).to(dtype)


def inputs(B: int, H: int, G: int, C: int, K: int, V: int, dtype: torch.dtype, scale: float = 1.0) -> list[Tensor]:
    """A token's queries, key and value, and the rings before it."""
    sizes = [(B, H, 1, K), (B, G, 1, K), (B, G, 1, V), (B, G, C, K), (B, G, C, V)]
    return [drawn(*size, dtype=dtype, seed=seed, scale=scale) for seed, size in enumerate(sizes)]


def expected(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> tuple[Tensor, ...]:
    """The output and both rings after the token, in float64."""
    q, k, v, keys, values = (tensor.double() for tensor in (q, k, v, keys, values))
    C = keys.shape[2]
    now = torch.arange(C) == (length % C)[:, None]  # (B, C)
    keys, values = (torch.where(now[:, None, :, None], new, old) for new, old in ((k, keys), (v, values)))
    then = ring.times(C, length + 1)
    with backends.use(attention="formed"):
        y = attend(q, keys, values, pattern=causal, query_time=length[:, None], key_time=then)
    return y, keys, values


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("H", "G", "C"), [(1, 1, 1), (4, 4, 63), (4, 2, 64), (6, 1, 65), (2, 2, 300)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_every_size(dtype: torch.dtype, H: int, G: int, C: int, scale: float) -> None:
    """Rows that begin, that fill the ring with this token, and whose ring has wrapped; scores up to thousands."""
    length = torch.tensor([0, C - 1, C, 3 * C + 1, C // 2])
    given = inputs(len(length), H, G, C, WIDTH[dtype], 2 * WIDTH[dtype], dtype, scale)
    reference = expected(*given, length)
    assert cached.supports(*given)
    y = cached.attend(*given, length)
    bound = {"rtol": 0, "atol": (1e-12 if dtype == torch.float64 else 2e-4) * scale}
    for actual, exact in zip((y, *given[3:]), reference, strict=True):
        torch.testing.assert_close(actual.double(), exact, **bound)


def test_nan_and_infinity_pass_through() -> None:
    q, k, v, keys, values = inputs(1, 2, 2, 8, 8, 8, torch.float64)
    values[0, 0, 3, 2], q[0, 1, 0, 0] = torch.inf, torch.nan
    y = cached.attend(q, k, v, keys, values, torch.tensor([5]))
    assert y[0, 0, 0, 2] == torch.inf
    assert y[0, 0, 0, :2].isfinite().all()
    assert y[0, 1].isnan().all()


def test_what_is_not_able() -> None:
    given = inputs(1, 2, 2, 8, 8, 8, torch.float64)
    assert cached.supports(*given)
    narrow = inputs(1, 2, 2, 8, 4, 8, torch.float64)
    learned = [given[0].clone().requires_grad_(), *given[1:]]
    assert not any(cached.supports(*case) for case in (narrow, learned, [*given[:4], given[4].float()]))
    with torch.no_grad():
        assert cached.supports(*learned)
    for name, able in (("formed", False), ("kernel", True)):
        with backends.use(attention=name):
            assert cached.supports(*given) is able


def test_wrong_arguments_are_errors() -> None:
    q, k, v, keys, values = inputs(2, 4, 2, 8, 8, 8, torch.float64)
    length = torch.tensor([1, 2])
    with pytest.raises(ValueError, match="lengths of 0 or more"):
        cached.attend(q, k, v, keys, values, torch.tensor([1, -1]))
    with pytest.raises(ValueError, match="that G divides"):
        cached.attend(q[:, :3], k, v, keys, values, length)
    with pytest.raises(ValueError, match="values must be"):
        cached.attend(q, k, v, keys, values[:, :, :7].contiguous(), length)
    with pytest.raises(ValueError, match="without gaps"):
        cached.attend(q, k, v, keys.transpose(1, 2).contiguous().transpose(1, 2), values, length)
    with pytest.raises(ValueError, match="length must be"):
        cached.attend(q, k, v, keys, values, length[:1])
