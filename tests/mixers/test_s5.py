"""S5 against one dense real system with matrix exponentials, and how it begins: HiPPO-N in blocks."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.s5 import S5
from seqloom.ops import backends
from seqloom.ops.scan import hold
from seqloom.ops.scan.hold import zero_order_hold
from seqloom.ops.state_space.hippo import normal
from tests.mixers.equation import Case, Recurrence, check_equation, check_long
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.eigenvalues import clipped, of_pairs
from tests.mixers.recurrences.s5 import s5

D, P = 5, 8
BACKENDS = [
    name for name in backends.known_backends()["scans"] if name not in {*backends.unavailable("scans"), "triton"}
]


def mixer_of(drawn: bool, **settings: object) -> S5:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "s5", "state_dim": P, **settings}).build(D, None).double()
    assert isinstance(mixer, S5)
    if drawn:
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.6)
    return mixer


def stream(T: int) -> Tensor:
    return torch.randn(2, T, D, generator=torch.Generator().manual_seed(T), dtype=torch.float64)


def as_real(pairs: Tensor) -> Tensor:
    """Multiplication by complex numbers (N, M, 2) as real blocks [re -im; im re]: (2N, 2M)."""
    re, im = pairs.unbind(-1)
    rows = torch.stack([torch.stack([re, -im], -1), torch.stack([im, re], -1)], 1)  # (N, 2, M, 2)
    return rows.reshape(2 * len(pairs), -1)


def dense(mixer: S5, x: Tensor) -> Tensor:
    """x' = A x + B u of 2N real numbers, sampled by the exponential of [A B; 0 0] at each state's own step."""
    N, scale = mixer.states, mixer.config.step_scale
    real, imaginary = mixer.eigenvalues.unbind(-1)
    step = (scale * mixer.log_step.exp()).repeat_interleave(2)[:, None]
    A = as_real(torch.diag_embed(torch.stack([real.clamp(max=-1e-4), imaginary])).movedim(0, -1)) * step
    B = mixer.b.movedim(-1, 1).reshape(2 * N, D) * step
    whole = torch.linalg.matrix_exp(torch.cat([torch.cat([A, B], 1), A.new_zeros(D, 2 * N + D)]))
    kept, new = whole[: 2 * N, : 2 * N], whole[: 2 * N, 2 * N :]
    C = 2 * torch.stack([mixer.c[..., 0], -mixer.c[..., 1]], -1).reshape(D, 2 * N)
    h, outputs = x.new_zeros(len(x), 2 * N), []
    for u in x.unbind(1):
        h = h @ kept.mT + u @ new.mT
        z = gelu(h @ C.mT + mixer.d * u)
        outputs.append(z * torch.sigmoid(z @ mixer.w_gate.weight.mT))
    return torch.stack(outputs, 1)


@pytest.mark.sample(5)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("settings", [{}, {"blocks": 2}, {"step_scale": 2.5}])
@pytest.mark.parametrize("drawn", [True, False])
def test_one_dense_system_of_many_inputs(backend: str, settings: dict[str, float], drawn: bool) -> None:
    mixer = mixer_of(drawn, **settings)
    for T in (1, 2, 40):
        with torch.no_grad(), backends.use(scans=backend):
            np.testing.assert_allclose(mixer(stream(T)), dense(mixer, stream(T)), rtol=0, atol=1e-11)


def test_its_gradients_are_those_of_the_dense_system() -> None:
    mixer, x = mixer_of(True), stream(12)
    expected = torch.autograd.grad(dense(mixer, x).square().sum(), list(mixer.parameters()))
    for actual, other in zip(
        torch.autograd.grad(mixer(x).square().sum(), list(mixer.parameters())), expected, strict=True
    ):
        torch.testing.assert_close(actual, other, rtol=1e-9, atol=1e-9)


def hippo_n(N: int) -> np.ndarray:
    """-½ on the diagonal, ∓½ √(2n+1) √(2k+1) below and above it: the normal part of HiPPO-LegS."""
    root = np.sqrt(2 * np.arange(N) + 1)
    below = np.tril(np.outer(root, root), -1) / 2
    return below.T - below - np.eye(N) / 2


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_it_is_initialized_as_blocks_of_hippo_n(blocks: int) -> None:
    """Λ is each block's spectrum above the real axis; B and C stand for real matrices around that block's A."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "s5", "state_dim": 24, "blocks": blocks}).build(16, None).double()
    assert isinstance(mixer, S5)
    size, A = 24 // blocks, hippo_n(24 // blocks)
    spectrum = np.linalg.eigvals(A)
    expected = sorted(spectrum[spectrum.imag > 0], key=lambda value: value.imag)
    V = normal(size)[1].numpy()
    rates, b, c = (torch.view_as_complex(x.detach()).numpy() for x in (mixer.eigenvalues, mixer.b, mixer.c))
    for n in range(blocks):
        part = slice(n * size // 2, (n + 1) * size // 2)
        np.testing.assert_allclose(rates[part], expected, rtol=0, atol=1e-5)
        B, C = 2 * (V @ b[part]).real, 2 * (c[:, part] @ V.conj().T).real
        np.testing.assert_allclose(C @ A @ B, 2 * (c[:, part] * rates[part] @ b[part]).real, rtol=0, atol=1e-5)
        for matrix in (B, C):
            assert 0.6 < matrix.var() * 24 < 1.5
    if blocks > 1:
        assert np.abs(b[: size // 2] - b[size // 2 : size]).min() > 0  # blocks share Λ alone


def test_initial_steps_are_log_uniform() -> None:
    steps = mixer_config({"kind": "s5", "state_dim": 800, "blocks": 100}).build(1, None).log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 1.1e-3
    assert 0.09 < float(steps.max()) <= 0.1 * (1 + 1e-6)
    assert abs(float(steps.log().mean()) - math.log(1e-2)) < 0.25  # 4 deviations of the mean of 400
    narrow = mixer_config({"kind": "s5", "dt_min": 0.5, "dt_max": 0.5}).build(4, None)
    torch.testing.assert_close(narrow.log_step.detach().exp(), torch.full((32,), 0.5))


def test_reset_initializes_again() -> None:
    mixer = mixer_of(True, blocks=2)
    mixer.reset(0.5)
    begun = mixer_of(False, blocks=2)
    torch.testing.assert_close(mixer.eigenvalues, begun.eigenvalues)
    assert float(mixer.log_step.detach().max()) <= math.log(0.1)
    assert 0.2 < float(mixer.w_gate.weight.detach().std()) < 0.8


def test_what_is_decayed() -> None:
    mixer = mixer_of(False)
    names = {id(parameter): name for name, parameter in mixer.named_parameters()}
    rest, state = mixer.param_groups()
    assert {names[id(each)] for each in state["params"]} == {"log_step", "eigenvalues", "b"}
    assert state["weight_decay"] == 0.0
    assert {names[id(each)] for each in rest["params"]} == {"c", "d", "w_gate.weight"}
    assert set(rest) == {"params"}


def test_no_state_grows() -> None:
    """However far an eigenvalue is learned to the right."""
    mixer, x = mixer_of(False).float(), torch.ones(1, 8192, D)
    with torch.no_grad():
        mixer.eigenvalues[:, 0] = torch.linspace(-1, 40, P // 2)
        y = mixer(x)
        assert bool(y.isfinite().all())
        memory = {view.name: view.values for view in mixer.plots(x[:, :3])}["memory"]
    torch.testing.assert_close(memory[1:], 1e4 / mixer.log_step.detach()[1:].exp(), rtol=1e-4, atol=0)


def test_small_steps_are_exact_in_single_precision() -> None:
    """(e^{λΔ} - 1) / λ at Δ of 10^-6, where the difference has two digits left."""
    v, step = torch.ones(1, 1, 2, dtype=torch.complex64), torch.full((2,), -13.8)
    values = torch.tensor([[-0.5, 0.0], [-0.5, 3.0]])
    x, _ = zero_order_hold(v, step, values)
    expected, _ = zero_order_hold(v.to(torch.complex128), step.double(), values.double())
    torch.testing.assert_close(x.to(expected.dtype), expected, rtol=3e-7, atol=0)
    torch.testing.assert_close(expected.abs()[0, 0], step.double().exp(), rtol=1e-5, atol=0)


def test_a_hold_is_the_same_at_each_token_or_for_all() -> None:
    v = torch.randn(2, 6, 3, dtype=torch.complex128)
    step, values = torch.randn(3).double(), torch.randn(3, 2).double()
    lengths = torch.tensor([0, 4])
    result = []
    for name in BACKENDS:
        with backends.use(scans=name):
            result.append(zero_order_hold(v, step, values, scale=0.7, lengths=lengths))
    for x, after in result[1:]:
        torch.testing.assert_close(x[1, :4], result[0][0][1, :4])
        torch.testing.assert_close(after, result[0][1])
    assert float(hold.continuous(step, values)[0].real.max()) <= -1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state_dim": 7}, "choose a state_dim divisible by 2"),
        ({"state_dim": 10, "blocks": 2}, "choose a state_dim divisible by 4"),
        ({"dt_min": 0.2}, "choose dt_min ≤ dt_max"),
    ],
)
def test_settings_that_do_not_fit_are_errors(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "s5", **settings})


def s5_of(scale: float = 1.0) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        result = clipped(of_pairs(w, "L", "B", "C"))
        return s5(x, {**result, "log_delta": w["log_delta"] + np.log(scale)})

    return recurrence


LETTERS = {"log_step": "log_delta", "eigenvalues": "L", "b": "B", "c": "C", "d": "D", "w_gate.weight": "w_gate"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "s5": ({"kind": "s5", "state_dim": 10}, s5_of()),
    "s5, steps of 3": ({"kind": "s5", "state_dim": 8, "blocks": 2, "step_scale": 3.0}, s5_of(3.0)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_s5_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_s5_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)
