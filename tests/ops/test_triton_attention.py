"""The Triton kernels for narrow heads of attention against the reference, on a GPU or under Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from seqloom.counting.count import count
from seqloom.ops import backends
from seqloom.ops.attention import attend, band_pattern, everywhere, gpu
from tests.ops.kernel_runs import DEVICE, every_type, everything, numbers, runs, same

SIZES = {
    "one token": (1, 1, 1, 1, 1),
    "as wide as they come": (2, 2, 16, 16, 16),
    "blocks of queries that end within": (2, 2, 37, 4, 5),
    "shared keys": (6, 2, 35, 3, 7),
}


def heads(H: int, G: int, T: int, K: int, V: int) -> list[Tensor]:
    return [numbers(2, H, T, K), numbers(2, G, T, K, seed=1), numbers(2, G, T, V, seed=2)]


@runs
@every_type
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("sizes", SIZES)
def test_narrow_heads(dtype: torch.dtype, scale: float | None, sizes: str) -> None:
    same("attention", lambda *of: (attend(*of, scale=scale),), heads(*SIZES[sizes]), dtype)


@runs
@pytest.mark.parametrize("T", [129, gpu.LONGEST])
def test_as_many_tokens_as_fit(T: int) -> None:
    same("attention", lambda *of: (attend(*of),), heads(1, 1, T, 4, 4), torch.float32)


@runs
def test_heads_that_lie_in_one_projection() -> None:
    """Views with strides of their own, also of channels, and gradients that are expanded."""
    packed = numbers(2, 9, 3 * 4 * 2)

    def run(packed: Tensor) -> tuple[Tensor]:
        q, k, v = packed.unflatten(2, (3, 4, 2)).permute(2, 0, 3, 1, 4)
        return (attend(q, k, v.mT.contiguous().mT),)

    same("attention", run, [packed])
    with backends.use(attention="triton"):
        attend(*(numbers(1, 1, 3, 2).requires_grad_() for _ in range(3))).sum().backward()


@runs
def test_no_query_depends_on_later_tokens_or_other_rows() -> None:
    q, k, v = heads(2, 2, 40, 4, 4)
    with backends.use(attention="triton"):
        y = attend(q, k, v)
        for x in (q, k, v):
            x[:, :, 21:] += 1e6
            x[1] = torch.nan
        assert torch.equal(attend(q, k, v)[0, :, :21], y[0, :, :21])


@runs
def test_scores_that_overflow_without_the_largest() -> None:
    q, k, v = (x.float() * 100 for x in heads(1, 1, 20, 4, 4))
    with backends.use(attention="formed"):
        expected = attend(q.double(), k.double(), v.double())
    with backends.use(attention="triton"):
        torch.testing.assert_close(attend(q, k, v).double(), expected, rtol=1e-3, atol=1e-3)


@runs
def test_second_derivatives_of_triton_attention() -> None:
    given = [x[:1].requires_grad_() for x in heads(2, 1, 3, 2, 2)]
    with backends.use(attention="triton"):
        assert torch.autograd.gradgradcheck(lambda *of: attend(*of), given)


@runs
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    """Sums are in float32, so an output differs from the exact one by its own rounding."""
    given = [x.to(dtype) for x in heads(2, 2, 33, 4, 4)]
    exact = everything(
        "attention", "reference", lambda *of: (attend(*of),), [x.double().requires_grad_() for x in given]
    )
    actual = everything("attention", "triton", lambda *of: (attend(*of),), [x.requires_grad_() for x in given])
    for a, b in zip(actual, exact, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double(), b, rtol=3 * torch.finfo(dtype).eps, atol=3 * torch.finfo(dtype).eps)


@runs
def test_autocast_narrows_what_goes_in() -> None:
    q, k, v = (x.float() for x in heads(1, 1, 5, 2, 2))
    with backends.use(attention="triton"), torch.autocast(DEVICE.type, torch.bfloat16):
        y = attend(q, k.bfloat16(), v)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, attend(q.bfloat16(), k.bfloat16(), v.bfloat16()))


@runs
def test_what_it_does_not_do_is_refused() -> None:
    few, many = torch.ones(3, 1, 1, 3, 4, device=DEVICE), torch.ones(3, 1, 1, gpu.LONGEST + 1, 4, device=DEVICE)
    wide = torch.ones(1, 1, 3, gpu.WIDEST + 1, device=DEVICE)
    refused = [
        lambda: attend(*many),
        lambda: attend(wide, wide, few[2]),
        lambda: attend(few[0], few[1], wide),
        lambda: attend(*few, pattern=everywhere),
        lambda: attend(*few, pattern=band_pattern(2)),
        lambda: attend(*few, softcap=2.0),
        lambda: attend(few[0, :, :, :1], few[1], few[2]),
    ]
    with backends.use(attention="triton"):
        attend(*few)
        for call in refused:
            with pytest.raises(ValueError, match="backend 'triton' of attention cannot do this"):
                call()


@runs
def test_torch_holds_the_operators_of_triton_attention_sound() -> None:
    q, k, v = (x.transpose(1, 2).requires_grad_() for x in heads(4, 2, 5, 3, 2))
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(gpu.forward.operator, (q, k, v), test_utils=tests)
    torch.library.opcheck(gpu.forward.backward.operator, (q, k, v, gpu.forward(q, k, v)), test_utils=tests)


@runs
@pytest.mark.graph
def test_triton_attention_compiled_whole_with_its_gradients() -> None:
    x = numbers(2, 2, 7, 3).requires_grad_()

    def run(x: Tensor) -> tuple[Tensor]:
        return (attend(x, x.sin(), 2 * x),)

    expected = everything("attention", "triton", run, [x])
    torch._dynamo.reset()
    actual = everything("attention", "triton", torch.compile(run, fullgraph=True, backend="aot_eager"), [x])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b)


@runs
def test_what_is_executed_has_a_price() -> None:
    q, k, v = heads(2, 2, 40, 4, 4)
    with torch.no_grad(), backends.use(attention="triton"):
        here = count(lambda: attend(q, k, v))
    with torch.no_grad(), backends.use(attention="reference"):
        there = count(lambda: attend(q, k, v))
    assert there.total <= here.total <= 4 * there.total


def test_the_rule_takes_narrow_heads_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On meta tensors, where a GPU is pretended."""
    chosen = []
    monkeypatch.setattr("seqloom.ops.attention.device.best", lambda device: True)
    monkeypatch.setattr("seqloom.ops.attention.gpu.device.supports", lambda device: True)
    for H, T, K in ((32, 128, 4), (8, 256, 16), (8, 257, 16), (4, 128, 32)):
        q = torch.empty(1, H, T, K, device="meta")
        with backends.record_backends() as ran:
            attend(q, q, q)
        chosen += ran["attention"]
    assert chosen == ["triton", "triton", "kernel", "kernel"]
