"""The kernels of flash-linear-attention against our references in double precision, where a GPU and fla are."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import seqloom.mixers  # noqa: F401  # which registers every kind
from seqloom.core.mixer_config import mixer_config
from seqloom.ops import backends, fla
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.gated import gated
from seqloom.ops.linear_decay import decay, normalised

if not fla.why():
    from triton.runtime.autotuner import Autotuner

    tuned = Autotuner.__init__

    def untuned(self, fn, arg_names, configs, *rest, **options):
        """Fla times every kernel in up to 50 variants first, minutes of compilation; the first gives the same sums."""
        tuned(self, fn, arg_names, configs[:1], *rest, **options)

    Autotuner.__init__ = untuned  # before fla's kernels are imported

runs = pytest.mark.skipif(bool(fla.why()), reason=fla.why())
CLOSE = 2e-2
"""‖ours - reference‖ / ‖reference‖ that products in bfloat16, of 8 bits, may give"""
B, H, T, K, V = 2, 2, 70, 24, 40
"""a chunk and a part of the next; widths that are no powers of 2"""


def drawn(*shape: int, seed: int) -> Tensor:
    """Numbers that bfloat16 holds exactly, in double precision."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.bfloat16().double().cuda()


def gate(*shape: int, seed: int) -> Tensor:
    return -drawn(*shape, seed=seed).square() / 8


def state() -> Tensor:
    return drawn(B, H, K, V, seed=9)


def unit(x: Tensor) -> Tensor:
    return (x / x.norm(dim=-1, keepdim=True)).bfloat16().double()


def sum_case(g: Tensor | None) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, k, v = drawn(B, H, T, K, seed=0), drawn(B, H, T, K, seed=1), drawn(B, H, T, V, seed=2)
    return decay, [q, k, v, g, state()]


def rule_case(g: Tensor | None, write: bool) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, k = drawn(B, H, T, K, seed=0), unit(drawn(B, H, T, K, seed=1))
    erase, v = unit(drawn(B, H, T, K, seed=3)), drawn(B, H, T, V, seed=2)
    return delta, [q, k, v, erase, unit(drawn(B, H, T, K, seed=4)) if write else None, g, state()]


def mixer_case(g: Tensor | None, heads: int) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    x, beta = drawn(B, T, 2 * heads * K + H * V, seed=0), drawn(B, T, H, seed=1).sigmoid().bfloat16().double()
    return lambda x, g, beta, S, **lengths: gated(x, g, beta, S, heads=heads, K=K, **lengths), [x, g, beta, state()]


def weighted_case() -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]:
    q, k, v = drawn(B, H, T, K, seed=0), drawn(B, H, T, K, seed=1), drawn(B, H, T, V, seed=2)
    weight = drawn(B, H, T, seed=3).sigmoid()
    with_ones = drawn(B, H, K, V + 1, seed=9)
    return lambda q, k, v, g, w, S: normalised(q, k, v, g, S, weight=w), [
        *(q, k, v, gate(B, H, T, seed=4), weight, with_ones)
    ]


CASES: dict[str, tuple[str, Callable[[], tuple[Callable[..., tuple[Tensor, ...]], list[Tensor | None]]]]] = {
    "sum without decay": ("linear_decay", lambda: sum_case(None)),
    "sum, a decay per head": ("linear_decay", lambda: sum_case(gate(H, seed=5))),
    "sum, a decay per token": ("linear_decay", lambda: sum_case(gate(B, H, T, seed=5))),
    "sum, a decay per channel": ("linear_decay", lambda: sum_case(gate(B, H, T, K, seed=5))),
    "sum with weights and normalizer": ("linear_decay", weighted_case),
    "rule without decay": ("delta_rule", lambda: rule_case(None, False)),
    "rule, a decay per token": ("delta_rule", lambda: rule_case(gate(B, H, T, seed=5), False)),
    "rule, a decay per channel": ("delta_rule", lambda: rule_case(gate(B, H, T, K, seed=5), True)),
    "delta": ("delta_rule", lambda: mixer_case(None, 2)),
    "delta, two heads of values per key": ("delta_rule", lambda: mixer_case(None, 1)),
    "gated delta": ("delta_rule", lambda: mixer_case(gate(B, T, H, seed=5), 2)),
    "gated delta, two heads of values per key": ("delta_rule", lambda: mixer_case(gate(B, T, H, seed=5), 1)),
    "kda": ("delta_rule", lambda: mixer_case(gate(B, T, H, K, seed=5), 2)),
}


def everything(
    op: str, backend: str, run: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor | None], wide: tuple[int, ...]
) -> list[Tensor]:
    """The outputs, and the gradients of all inputs; for fla inputs are in bfloat16, but those in `wide` in float32."""
    leaves = []
    for number, x in enumerate(inputs):
        dtype = torch.float64 if backend == "reference" else torch.float32 if number in wide else torch.bfloat16
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
@pytest.mark.parametrize("case", ["gated delta", "kda", "delta"])
def test_padding_behind_lengths_is_never_read(case: str) -> None:
    run, inputs = CASES[case][1]()
    x, g, beta, S = (None if t is None else t.float() for t in inputs)
    x[0, 50:] = torch.nan
    lengths = torch.tensor([50, T], device="cuda")
    y, after = run(x.bfloat16(), g, beta, S, lengths=lengths)
    alone, after_alone = run(*(None if t is None else t[:1, :50] for t in (x.bfloat16(), g, beta)), S[:1])
    torch.testing.assert_close(y[:1, :, :50], alone, rtol=0.02, atol=0.02)
    torch.testing.assert_close(after[:1], after_alone, rtol=0.02, atol=0.02)


@runs
def test_fla_is_the_default_for_narrow_types_alone() -> None:
    run, inputs = sum_case(None)
    for dtype, expected in ((torch.bfloat16, "fla"), (torch.float16, "fla"), (torch.float32, "triton")):
        with backends.recorded() as ran:
            run(*(None if x is None else x.to(dtype) for x in inputs))
        assert ran == {"linear_decay": [expected]}
    with backends.use(linear_decay="fla"), pytest.raises(ValueError, match="'fla' of linear_decay cannot do this"):
        run(*inputs)


@runs
def test_sums_that_are_divided_by_their_normalizer_stay_in_float32() -> None:
    run, inputs = weighted_case()
    with backends.recorded() as ran:
        run(*(None if x is None else x.bfloat16() for x in inputs))
    assert ran == {"linear_decay": ["triton"]}


def test_the_mark_on_outputs_lets_one_derivative_through() -> None:
    x = torch.ones(3, requires_grad=True)
    y = fla.once(x * x)
    assert torch.equal(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@runs
@pytest.mark.parametrize("case", ["sum, a decay per token", "gated delta"])
def test_a_second_derivative_is_refused(case: str) -> None:
    run, inputs = CASES[case][1]()
    leaves = [None if x is None else x.bfloat16().requires_grad_() for x in inputs]
    y, _ = run(*leaves)
    with pytest.raises(RuntimeError, match="no second derivative: force backend 'chunked'"):
        torch.autograd.grad(y.float().square().sum(), leaves[0], create_graph=True)


@runs
@pytest.mark.parametrize("kind", ["gla", "delta", "gated_delta", "kda", "rwkv7", "mamba2"])
def test_mixers_use_it_under_autocast(kind: str) -> None:
    """The outputs and gradients of a whole mixer under autocast are those in float32, up to bfloat16's rounding."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": kind}).build(64, 256).cuda()
    x = torch.randn(2, 130, 64, device="cuda")
    results = []
    for narrow in (False, True):
        mixer.zero_grad()
        given = x.clone().requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow), backends.recorded() as ran:
            y = mixer(given)
        y.float().square().sum().backward()
        results.append((y.float(), given.grad))
    assert any("fla" in names for names in ran.values()), ran
    for wide, half in zip(*results, strict=True):
        assert float((wide - half).norm() / wide.norm()) < 3 * CLOSE
