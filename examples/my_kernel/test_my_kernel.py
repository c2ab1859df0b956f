"""The promises of seqloom's contract for this mixer, and its kernels against the loop, in Triton's interpreter.

TRITON_INTERPRET=1 python -m pytest examples/my_kernel     numbers and gradients of the kernels
python -m pytest examples/my_kernel                        the promises, and the kernels compiled for a GPU
"""

import numpy as np
import pytest
import torch
from my_kernel.mixer import IndRNNConfig
from my_kernel.recurrence import BLOCK, gradients, recur, reference
from torch import Tensor

from seqloom.contracts import PROMISES
from seqloom.contracts.finding import Promise
from seqloom.contracts.target import subject_of
from seqloom.ops import backends, gpu

runs = pytest.mark.skipif(bool(gpu.why()), reason=f"{gpu.why()}: set TRITON_INTERPRET=1")
compiles = pytest.mark.skipif(
    gpu.INTERPRETED or gpu.why().startswith("Triton"), reason="Triton is not installed, or interprets"
)
DEVICE = torch.device("cpu" if gpu.INTERPRETED or gpu.why() else "cuda")


def numbers(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.to(DEVICE, dtype).requires_grad_()


def inputs(B: int, T: int, D: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """a, z and the state."""
    shapes = ((D,), (B, T, D), (B, D))
    return [numbers(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def results(backend: str, given: list[Tensor], lengths: Tensor | None = None) -> list[Tensor]:
    """The outputs and the gradients of all inputs; padding counts nothing."""
    with backends.use(independent_recurrence=backend):
        h, last = recur(*given, lengths=lengths)
    if lengths is not None:
        h = h * (torch.arange(h.shape[1], device=h.device) < lengths[:, None])[:, :, None]
    weights = numbers(*h.shape, seed=9, dtype=h.dtype).detach()
    loss = (h * weights).sum() + last.square().sum()
    return [h, last, *torch.autograd.grad(loss, given)]


@pytest.mark.parametrize("promise", PROMISES)
def test_the_promises(promise: Promise) -> None:
    finding = promise(subject_of("my_kernel.mixer:IndRNNConfig", dim=8, settings={"weight": 0.5}))
    assert finding.verdict == "holds", finding.detail


def test_the_mixer_is_the_equation() -> None:
    mixer = IndRNNConfig(weight=0.5).build(4, None).double()
    x = np.random.default_rng(1).normal(size=(1, 6, 4))
    w, w_out = (layer.weight.detach().numpy().T for layer in (mixer.w, mixer.w_out))
    h, expected = np.zeros(4), []
    for x_t in x[0]:
        h = np.tanh(0.5 * h + x_t @ w)
        expected.append(h @ w_out)
    np.testing.assert_allclose(mixer(torch.tensor(x))[0].detach().numpy(), expected, atol=1e-12)


def test_the_gradients_are_those_of_the_loop() -> None:
    a, z, state = inputs(2, 5, 3)
    h = reference(a, z, state)
    dh = numbers(*h.shape, seed=9).detach()
    for actual, expected in zip(gradients(a, h, state, dh), torch.autograd.grad(h, (a, z, state), dh), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@runs
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize(("T", "D"), [(1, 1), (2, BLOCK), (9, BLOCK + 5)])
@pytest.mark.parametrize("padded", [False, True])
def test_the_kernels_are_the_loop(dtype: torch.dtype, T: int, D: int, padded: bool) -> None:
    lengths = torch.tensor([T // 2, T], device=DEVICE) if padded else None
    expected = results("reference", inputs(2, T, D), lengths)
    actual = results("triton", inputs(2, T, D, dtype), lengths)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.to(b.dtype), b, rtol=tolerance, atol=tolerance)


@runs
def test_the_kernels_have_second_derivatives() -> None:
    with backends.use(independent_recurrence="triton"):
        assert torch.autograd.gradgradcheck(lambda *given: recur(*given)[0], inputs(2, 3, 2))


@compiles
@pytest.mark.parametrize("kind", ["fp32", "fp64"])
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_the_kernels_compile_for_a_gpu(name: str, kind: str) -> None:
    import triton
    from my_kernel import kernels
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(kernels, name)
    kinds = {"T": "i32", "D": "i32", "BLOCK": "constexpr"}
    signature = {argument: kinds.get(argument, f"*{kind}") for argument in kernel.arg_names}
    made = triton.compile(ASTSource(kernel, signature, {"BLOCK": BLOCK}), target=GPUTarget("cuda", 90, 32))
    assert made.asm["cubin"]
