"""The kernels of flash-linear-attention against our references in double precision, where fla and a GPU are.

Without a GPU one test starts the others under Triton's interpreter, in float16: it gives wrong numbers in bfloat16.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

import seqloom.mixers  # noqa: F401  # which registers every kind
from seqloom.core.graphs import as_in_a_graph
from seqloom.core.mixer_config import mixer_config
from seqloom.ops import backends, fla, gpu
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.fla import GATED
from seqloom.ops.delta_rule.gated import gated_delta
from seqloom.ops.fused.gated_norm import Gate, normalize
from seqloom.ops.fused.short_convolution import convolve
from seqloom.ops.linear_decay import choose_backend, decay, decay_with_normalizer
from tests.training.recorded import on_a_cpu

DEVICE, HALF = ("cpu", torch.float16) if gpu.INTERPRETED else ("cuda", torch.bfloat16)
ROOT = Path(__file__).parents[2]
BESIDE = Path(sys.prefix, "fla")
"""where `make .venv/peers` installs fla: `transformers` would call it, on a CPU too, if it were in the environment"""

if not fla.why():
    from triton.runtime.autotuner import Autotuner

    tuned = Autotuner.__init__

    def untuned(self, fn, arg_names, configs, *rest, **options):
        """Fla times every kernel in up to 50 variants first, minutes of compilation; the first gives the same sums."""
        tuned(self, fn, arg_names, configs[:1], *rest, **options)

    Autotuner.__init__ = untuned  # before fla's kernels are imported

if not fla.why() and gpu.INTERPRETED:

    class Index(int):
        """A loop's variable, of which fla's kernels ask `to`; under the interpreter it is a number of Python."""

        def to(self, dtype):
            return self

    for op in ("delta_rule", "gated_delta_rule", "generalized_delta_rule", "gla", "kda", "simple_gla"):
        import_module(f"fla.ops.{op}")
    for module in ("causal_conv1d", "norm.fused_norm_gate"):
        import_module(f"fla.modules.{module}")
    for name, module in list(sys.modules.items()):
        if name.startswith(("fla.ops", "fla.modules.")):
            module.range = lambda *bounds: map(Index, range(*map(int, bounds)))
            module.IS_GATHER_SUPPORTED = False  # it has a form without `gather`, which the interpreter does not know

runs = pytest.mark.skipif(bool(fla.why()), reason=fla.why())
on_a_gpu = pytest.mark.skipif(gpu.INTERPRETED, reason="on a CPU C is the default, and some kernels take long")
CLOSE = 2e-2
"""‖ours - reference‖ / ‖reference‖ that products in bfloat16, of 8 bits, may give"""
B, H, T, K, V = 2, 2, 70, 24, 40
"""a chunk and a part of the next; widths that are no powers of 2"""
MOST_COPIES = 19
"""conversions of a step of gated_delta, forward and backward; 14 are of parameters"""
SHORT = 20 if gpu.INTERPRETED else T
"""the same for the general rule, whose chunks are 16 long"""


def drawn(*shape: int, seed: int) -> Tensor:
    """Numbers that these dtypes hold exactly, in double precision."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(HALF).double().to(DEVICE)


def gate(*shape: int, seed: int) -> Tensor:
    return -drawn(*shape, seed=seed).square() / 8


def state() -> Tensor:
    return drawn(B, H, K, V, seed=9)


def unit(x: Tensor) -> Tensor:
    return (x / x.norm(dim=-1, keepdim=True)).to(HALF).double()


def sum_case(g: Tensor | None) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, k, v = drawn(B, H, T, K, seed=0), drawn(B, H, T, K, seed=1), drawn(B, H, T, V, seed=2)
    return decay, [q, k, v, g, state()]


def rule_case(g: Tensor | None, write: bool) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, v = drawn(B, H, SHORT, K, seed=0), drawn(B, H, SHORT, V, seed=2)
    k, erase, written = (unit(drawn(B, H, SHORT, K, seed=seed)) for seed in (1, 3, 4))

    def rule(q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor, g: Tensor, S: Tensor) -> Any:
        return delta(q, k, v, erase=erase, write=write, log_decay=g, state=S)

    return rule, [q, k, v, erase, written if write else None, g, state()]


def mixer_case(g: Tensor | None, heads: int) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    x, beta = drawn(B, T, 2 * heads * K + H * V, seed=0), drawn(B, T, H, seed=1).sigmoid().to(HALF).double()
    return lambda x, g, beta, S, **lengths: gated_delta(x, g, beta, S, heads=heads, K=K, **lengths), [
        x,
        g,
        beta,
        state(),
    ]


def weighted_case() -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, k, v = drawn(B, H, T, K, seed=0), drawn(B, H, T, K, seed=1), drawn(B, H, T, V, seed=2)
    weight = drawn(B, H, T, seed=3).sigmoid()
    with_ones = drawn(B, H, K, V + 1, seed=9)
    return lambda q, k, v, g, w, S: decay_with_normalizer(q, k, v, g, S, weight=w), [
        *(q, k, v, gate(B, H, T, seed=4), weight, with_ones)
    ]


def convolution_case(
    silu: bool, bias: bool, window: bool
) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    given = [drawn(B, T, 2 * K, seed=0), drawn(2 * K, seed=1) if bias else None]
    given += [drawn(B, 3, 2 * K, seed=2) if window else None, drawn(4, 2 * K, seed=3)]
    return lambda x, b, window, taps: (convolve(x, taps, b, window, silu),), given


def norm_case(gate: Gate) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    given = [drawn(B, T, H, V, seed=0), drawn(B, T, H * V, seed=1), 1 + drawn(V, seed=2) / 8]
    return lambda y, z, gain: (normalize(y, z, gain, 1e-5, gate),), given


CASES: dict[str, tuple[str, Callable[[], tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]]]] = {
    "sum without decay": ("linear_decay", lambda: sum_case(None)),
    "sum, a decay per head": ("linear_decay", lambda: sum_case(gate(H, seed=5))),
    "sum, a decay per token": ("linear_decay", lambda: sum_case(gate(B, H, T, seed=5))),
    "sum, a decay per channel": ("linear_decay", lambda: sum_case(gate(B, H, T, K, seed=5))),
    "sum with weights and normalizer": ("linear_decay", weighted_case),
    "rule without decay": ("delta_rule", lambda: rule_case(None, False)),
    "rule, a decay per token": ("delta_rule", lambda: rule_case(gate(B, H, SHORT, seed=5), False)),
    "rule, a decay per channel": ("delta_rule", lambda: rule_case(gate(B, H, SHORT, K, seed=5), True)),
    "delta": ("delta_rule", lambda: mixer_case(None, 2)),
    "delta, two heads of values per key": ("delta_rule", lambda: mixer_case(None, 1)),
    "gated delta": ("delta_rule", lambda: mixer_case(gate(B, T, H, seed=5), 2)),
    "gated delta, two heads of values per key": ("delta_rule", lambda: mixer_case(gate(B, T, H, seed=5), 1)),
    "kda": ("delta_rule", lambda: mixer_case(gate(B, T, H, K, seed=5), 2)),
    "convolution": ("short_convolution", lambda: convolution_case(True, False, False)),
    "convolution after a window": ("short_convolution", lambda: convolution_case(False, True, True)),
    "norm before silu": ("gated_norm", lambda: norm_case("silu")),
    "norm before a sigmoid": ("gated_norm", lambda: norm_case("sigmoid")),
}


def everything(
    op: str, backend: str, run: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor | None], wide: tuple[int, ...]
) -> list[Tensor]:
    """The outputs, and the gradients of all inputs; for fla inputs are in bfloat16, but those in `wide` in float32."""
    leaves = []
    for number, x in enumerate(inputs):
        dtype = torch.float64 if backend == "reference" else torch.float32 if number in wide else HALF
        leaves.append(None if x is None else x.detach().to(dtype).requires_grad_())
    with backends.use(**{op: backend}):
        outputs = run(*leaves)
    total = sum((y.double() * drawn(*y.shape, seed=99)).sum() for y in outputs)
    return [*outputs, *torch.autograd.grad(total, [leaf for leaf in leaves if leaf is not None])]


@runs
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_are_the_reference(case: str) -> None:
    op, make = CASES[case]
    run, inputs = make()
    wide = (*(n for n, x in enumerate(inputs) if x is not None and bool((x <= 0).all())), len(inputs) - 1)  # g and S
    expected = everything(op, "reference", run, inputs, wide)
    actual = everything(op, "fla", run, inputs, wide)
    errors = [
        float((ours.double() - exact).norm() / exact.norm().clamp(min=1e-6))
        for ours, exact in zip(actual, expected, strict=True)
    ]
    assert max(errors) < CLOSE, errors


@runs
@pytest.mark.parametrize("case", ["gated delta", pytest.param("kda", marks=on_a_gpu), "delta"])
def test_padding_behind_lengths_is_never_read(case: str) -> None:
    run, inputs = CASES[case][1]()
    x, g, beta, S = (None if t is None else t.float() for t in inputs)
    x[0, 50:] = torch.nan
    lengths = torch.tensor([50, T], device=DEVICE)
    with backends.use(delta_rule="fla"):
        y, after = run(x.to(HALF), g, beta, S, lengths=lengths)
        alone, after_alone = run(*(None if t is None else t[:1, :50] for t in (x.to(HALF), g, beta)), S[:1])
    torch.testing.assert_close(y[:1, :, :50], alone, rtol=0.02, atol=0.02)
    torch.testing.assert_close(after[:1], after_alone, rtol=0.02, atol=0.02)


@runs
@on_a_gpu
def test_fla_is_the_default_for_narrow_types_alone() -> None:
    run, inputs = sum_case(None)
    for dtype, expected in ((torch.bfloat16, "fla"), (torch.float16, "fla"), (torch.float32, "triton")):
        with backends.record_backends() as ran:
            run(*(None if x is None else x.to(dtype) for x in inputs))
        assert ran == {"linear_decay": [expected]}


@runs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wide_types_are_refused(dtype: torch.dtype) -> None:
    run, inputs = sum_case(None)
    with backends.use(linear_decay="fla"), pytest.raises(ValueError, match="'fla' of linear_decay cannot do this"):
        run(*(None if x is None else x.to(dtype) for x in inputs))


@runs
@on_a_gpu
def test_sums_that_are_divided_by_their_normalizer_stay_in_float32() -> None:
    run, inputs = weighted_case()
    with backends.record_backends() as ran:
        run(*(None if x is None else x.to(HALF) for x in inputs))
    assert ran == {"linear_decay": ["triton"]}


def test_the_mark_on_outputs_lets_one_derivative_through() -> None:
    x, z = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    y, state = fla.once(x * x, 1 * z)
    assert torch.equal(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], torch.full((3,), 2.0))
    assert torch.equal(torch.autograd.grad(state.sum(), z, retain_graph=True)[0], torch.ones(2))
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@runs
@pytest.mark.parametrize("case", ["sum, a decay per token", "gated delta"])
def test_a_second_derivative_is_refused(case: str) -> None:
    op, make = CASES[case]
    run, inputs = make()
    leaves = [None if x is None else x.to(HALF).requires_grad_() for x in inputs]
    with backends.use(**{op: "fla"}):
        y, _ = run(*leaves)
    with pytest.raises(RuntimeError, match="no second derivative: force backend 'chunked'"):
        torch.autograd.grad(y.float().square().sum(), leaves[0], create_graph=True)


@runs
def test_a_second_derivative_through_an_operator_is_refused() -> None:
    q, k, v = (drawn(1, 20, H, width, seed=width).to(HALF) for width in (K, K, V))
    beta = torch.ones(1, 20, H, device=DEVICE, dtype=HALF)
    y, _ = GATED.operator(q.requires_grad_(), k, v, None, beta, None)
    (dq,) = torch.autograd.grad(y.float().square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(dq.float().sum(), q)


@runs
@pytest.mark.parametrize("case", ["sum without decay", "rule, a decay per channel", "delta"])
def test_a_captured_graph_contains_one_operator_with_the_same_gradients(case: str) -> None:
    op, make = CASES[case]
    run, inputs = make()
    called: list[str] = []

    def read(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        called.extend(str(node.target) for node in graph.graph.nodes if "fla" in str(node.target))
        return graph

    captured = torch.compile(run, backend=aot_autograd(fw_compiler=read, bw_compiler=read), fullgraph=True)
    wide = (*(n for n, x in enumerate(inputs) if x is not None and bool((x <= 0).all())), len(inputs) - 1)
    eager, compiled = (everything(op, "fla", each, inputs, wide) for each in (run, captured))
    name = {"sum": "fla_sum", "rul": "fla_rule", "del": "fla_gated_rule"}[case[:3]]
    assert called == [f"seqloom.{name}.default", f"seqloom.{name}_backward.default"]
    for expected, actual in zip(eager, compiled, strict=True):
        assert actual.dtype == expected.dtype
        assert float((actual - expected).norm() / expected.norm()) < CLOSE / 10


@runs
@pytest.mark.parametrize("kind", ["gla", "delta", "gated_delta", "kda", "rwkv7", "mamba2"])
def test_mixers_use_it_under_autocast(kind: str) -> None:
    """The outputs and gradients of a whole mixer under autocast are those in float32, up to the dtype's rounding."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": kind}).build(64, 256).to(DEVICE)
    x = torch.randn(*((1, 20) if gpu.INTERPRETED else (2, 130)), 64, device=DEVICE)
    results = []
    for narrow in (False, True):
        mixer.zero_grad()
        given = x.clone().requires_grad_()
        forced = {"linear_decay": "fla", "delta_rule": "fla"} if narrow and gpu.INTERPRETED else {}
        with torch.autocast(DEVICE, HALF, enabled=narrow), backends.use(**forced), backends.record_backends() as ran:
            y = mixer(given)
        y.float().square().sum().backward()
        results.append((y.float(), given.grad))
    assert any("fla" in names for names in ran.values()), ran
    for wide, half in zip(*results, strict=True):
        assert float((wide - half).norm() / wide.norm()) < 3 * CLOSE


@runs
def test_gated_delta_converts_few_tensors() -> None:
    """Under autocast: x once and its gradient back, weights once a step, and what is one number per head and token."""
    mixer = mixer_config({"kind": "gated_delta"}).build(64, 256).to(DEVICE)
    x = torch.randn(1, SHORT, 64, device=DEVICE, requires_grad=True)
    counts = {}
    for backend in ("fla", "reference"):
        norm, convolution = ("fla", "fla") if backend == "fla" else ("reference", "lagged")
        forced = {"delta_rule": "fla", "gated_norm": norm, "short_convolution": convolution}
        with torch.profiler.profile() as profile, torch.autocast(DEVICE, HALF), backends.use(**forced):
            mixer(x.clone()).float().sum().backward()
        counts[backend] = sum(event.count for event in profile.key_averages() if event.key == "aten::_to_copy")
    assert counts["fla"] <= MOST_COPIES < counts["reference"], counts


def test_a_cuda_graph_records_what_runs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With graphs that record on a CPU in place of CUDA's, and a card that is pretended."""
    on_a_cpu(monkeypatch)
    monkeypatch.setattr(fla, "why", lambda: "")
    monkeypatch.setattr(gpu, "supports", lambda device: True)
    queries = SimpleNamespace(device=torch.device("cuda"), dtype=HALF, shape=(2, 4, 64, 32))
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        assert choose_backend(queries, False) == "fla"
    with as_in_a_graph(True):
        assert choose_backend(queries, False) != "fla"


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "reference and (gated or sum and without or convolution or norm) or captured and delta or operator and second"
        " or few_tensors",
        pytest.param("rule", marks=pytest.mark.slow),
        pytest.param("not rule", marks=pytest.mark.slow),
    ],
)
def test_this_under_the_interpreter(part: str) -> None:
    if gpu.INTERPRETED or not gpu.why():
        pytest.skip("the kernels run here")
    if not BESIDE.exists() or gpu.why() != "no GPU":
        pytest.skip("could not import fla or Triton: make .venv/peers")
    command = [sys.executable, "-m", "pytest", "-o", "addopts=-q", "-p", "no:cacheprovider", __file__, "-k", part]
    settings = {"TRITON_INTERPRET": "1", "SEQLOOM_SHAPES": "0", "PYTHONPATH": str(BESIDE)}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
