"""Performer: the quadratic form written out, attention in the limit of many directions, draws that go on."""

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation
from tests.mixers.recurrences.arithmetic import Array
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.performer import hyperbolic, performer, rectified

D, H = 8, 2
K = D // H
KERNELS = ("softmax", "hyperbolic", "relu")
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def build_performer(kernel: str = "softmax", *, std: float = 0.5, seed: int = 0, **settings: int) -> Mixer:
    torch.manual_seed(seed)
    mixer = mixer_config({"kind": "performer", "heads": H, "kernel": kernel, **settings}).build(D, None).double()
    with torch.no_grad():
        for n, parameter in enumerate(mixer.parameters()):
            parameter.copy_(numbers(*parameter.shape, seed=n, scale=std))
    return mixer


def feature(kernel: str, x: Tensor, w: Tensor) -> Tensor:
    """φ of one vector (K,) along the rows of w (R, K), as the paper has it."""
    x, R = x / K**0.25, len(w)
    if kernel == "softmax":
        return (w @ x - x @ x / 2).exp() / math.sqrt(R)
    if kernel == "hyperbolic":
        return (-x @ x / 2).exp() / math.sqrt(2 * R) * torch.cat([(w @ x).exp(), (-(w @ x)).exp()])
    return (w @ x).clamp(min=0) / math.sqrt(R) + 1e-3


def quadratic(mixer: Mixer, x: Tensor, kernel: str) -> Tensor:
    """Every weight of one row x (T, D), computed one at a time."""
    q, k, v = ((x @ w.weight.T).unflatten(1, (H, K)) for w in (mixer.w_q, mixer.w_k, mixer.w_v))
    outputs = []
    for t in range(len(x)):
        heads = []
        for h in range(H):
            w = mixer.directions[h]
            a = torch.stack([feature(kernel, q[t, h], w) @ feature(kernel, k[j, h], w) for j in range(t + 1)])
            heads.append(a / a.sum() @ v[: t + 1, h])
        outputs.append(torch.cat(heads))
    return torch.stack(outputs) @ mixer.w_out.weight.T


@pytest.mark.slow
@every_kernel
@pytest.mark.parametrize("features", [0, 1, 7])
def test_performer_is_its_quadratic_form(kernel: str, features: int) -> None:
    mixer = build_performer(kernel, features=features)
    results = []
    for read in (mixer, lambda x: torch.stack([quadratic(mixer, row, kernel) for row in x])):
        mixer.zero_grad()
        x = numbers(2, 9, D, seed=5).requires_grad_()
        y = read(x)
        (y * numbers(2, 9, D, seed=6)).sum().backward()
        results.append([y.detach(), x.grad, *(parameter.grad for parameter in mixer.parameters())])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("heads", "rows"), [(1, 351), (4, 60), (10, 17), (80, 1)])
def test_k_ln_k_directions_by_default(heads: int, rows: int) -> None:
    mixer = mixer_config({"kind": "performer", "heads": heads}).build(80, None)
    assert mixer.directions.shape == (heads, rows, 80 // heads)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["softmax", "hyperbolic"])
def test_with_many_directions_it_is_attention(kernel: str) -> None:
    """The mean squared error falls like 1/R: its slope over log R is -1, within its standard error.

    Queries and keys are short: the variance grows like e^{|q+k|²}, and for long ones R = 512 is far from the limit.
    """
    attention = mixer_config({"kind": "attention", "heads": H}).build(D, None).double()
    x, sizes, seeds = numbers(2, 12, D, seed=5), (32, 128, 512), 40
    logs, errors = [], []
    for R in sizes:
        squares = []
        for seed in range(seeds):
            mixer = build_performer(kernel, std=0.1, seed=seed, features=R)
            own = mixer.state_dict()
            qkv = torch.cat([own[f"w_{name}.weight"] for name in "qkv"])
            attention.load_state_dict({"w_qkv.weight": qkv, "w_out.weight": own["w_out.weight"]})
            with torch.no_grad():
                squares.append(float((mixer(x) - attention(x)).square().mean()))
        mean = sum(squares) / seeds
        spread = math.sqrt(sum((square - mean) ** 2 for square in squares) / (seeds - 1) / seeds)
        logs.append(math.log2(mean))
        errors.append(spread / mean / math.log(2))
    run = math.log2(sizes[-1] / sizes[0])
    slope, error = (logs[-1] - logs[0]) / run, math.hypot(errors[-1], errors[0]) / run
    assert abs(slope + 1) < 3 * error, f"the slope is {slope:.3f} ± {error:.3f}"
    assert error < 0.1, "too few draws to say anything"
    with torch.no_grad():
        expected = attention(x)
        attention.w_qkv.weight[:D].zero_()
        flat = float((attention(x) - expected).square().mean())
    assert 2 ** logs[-1] < 0.1 * flat, "no nearer to attention than to a plain mean of the values"


@every_kernel
def test_new_directions_come_when_they_are_due_and_from_the_checkpoint(kernel: str) -> None:
    mixer = build_performer(kernel, redraw_every=3)
    assert [due(mixer, step) for step in range(1, 8)] == [False, False, True, False, False, True, False]
    saved = copy.deepcopy(mixer.state_dict())
    other = build_performer(kernel, seed=9, redraw_every=3)
    other.load_state_dict(saved)
    torch.manual_seed(123)  # what else is drawn in between does not matter
    for step in range(8, 20):
        mixer.after_update(step, {})
        torch.randn(3)
        other.after_update(step, {})
        assert torch.equal(mixer.directions, other.directions)
    assert torch.equal(mixer(numbers(1, 4, D)), other(numbers(1, 4, D)))


def due(mixer: Mixer, step: int) -> bool:
    """Whether the update of this step changed the directions; fails where it changed anything else but the seed."""
    before = copy.deepcopy(mixer.state_dict())
    mixer.after_update(step, {})
    changed = {name for name, tensor in mixer.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed in (set(), {"directions", "seed"})
    return bool(changed)


def test_directions_are_never_redrawn_with_0_and_stay_through_reset() -> None:
    mixer = build_performer(redraw_every=0)
    assert not any(due(mixer, step) for step in range(1, 5))
    before = mixer.directions.clone()
    mixer.reset(0.02)
    assert torch.equal(mixer.directions, before)


def test_a_seed_gives_the_model() -> None:
    one, same, other = (build_performer(seed=seed) for seed in (4, 4, 5))
    assert torch.equal(one.directions, same.directions)
    assert not torch.equal(one.directions, other.directions)
    one.after_update(1000, {})
    same.after_update(1000, {})
    assert torch.equal(one.directions, same.directions)


@every_kernel
def test_it_is_stored_with_the_directions_it_has_now(kernel: str) -> None:
    mixer, x = build_performer(kernel, redraw_every=1), numbers(2, 6, D)
    first = mixer(x)
    mixer.after_update(1, {})
    now = mixer(x)
    assert not torch.equal(first, now)
    again = build_performer(kernel, seed=1, redraw_every=1)
    again.load_state_dict(mixer.state_dict())
    for stored in (again, copy.deepcopy(mixer), pickle.loads(pickle.dumps(mixer))):
        assert torch.equal(stored(x), now)
        stored.after_update(2, {})
        assert torch.equal(mixer(x), now), "the copy shares memory"
    before = copy.deepcopy(mixer.state_dict())
    _, state = mixer.extend(x, mixer.start(2))
    mixer.step(x[:, 0], state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in mixer.state_dict().items())


@pytest.mark.sample(5)
@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 1e2, 1e4])
def test_it_is_finite_whatever_it_reads(kernel: str, dtype: torch.dtype, scale: float) -> None:
    mixer = build_performer(kernel).to(dtype)
    x = (numbers(2, 80, D, scale=scale)).to(dtype).requires_grad_()
    y = mixer(x)
    y.float().square().sum().backward()
    assert bool(y.isfinite().all())
    assert bool(x.grad.isfinite().all())
    with torch.no_grad():
        first, state = mixer.extend(x[:, :40], mixer.start(2))
        second, _ = mixer.extend(x[:, 40:], state)
    assert bool(torch.cat([first, second], 1).isfinite().all())


@pytest.mark.parametrize("scale", [1.0, 20.0, 1e3])
def test_a_single_key_has_weight_1(scale: float) -> None:
    """However far its exponent is from those that floats can hold: q = k, so that both lean on the same directions."""
    mixer = build_performer("softmax").float()
    with torch.no_grad():
        mixer.w_k.weight.copy_(mixer.w_q.weight)
        x = numbers(3, 1, D).float() * scale
        torch.testing.assert_close(mixer(x), mixer.w_out(mixer.w_v(x)), rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("kernel", ["softmax", "hyperbolic"])
@pytest.mark.parametrize("backend", ["reference", "stable"])
def test_either_backend_reads_on_from_the_other(kernel: str, backend: str) -> None:
    mixer, x = build_performer(kernel), numbers(2, 9, D)
    with torch.no_grad():
        whole = mixer(x)
        with backends.use(random_features="stable" if backend == "reference" else "reference"):
            _, state = mixer.extend(x[:, :4], mixer.start(2))
        with backends.use(random_features=backend):
            y, state = mixer.extend(x[:, 4:7], state)
            token, _ = mixer.step(x[:, 7], state)
    torch.testing.assert_close(torch.cat([y, token[:, None]], 1), whole[:, 4:8], rtol=0, atol=1e-11)


@every_kernel
def test_autocast_keeps_the_exponents(kernel: str) -> None:
    mixer, x = build_performer(kernel).float(), numbers(2, 30, D).float()
    with torch.no_grad():
        expected = mixer(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = mixer(x)
    assert float((actual.float() - expected).norm() / expected.norm()) < 2e-2


@every_kernel
def test_its_weights_are_shown(kernel: str) -> None:
    mixer, x = build_performer(kernel), numbers(1, 7, D)
    with torch.no_grad():
        mean, *heads = (view.values for view in mixer.plots(x))
        value = mixer.w_v(x)[0].view(7, H, K)
        y = mixer.w_out(torch.cat([a @ value[:, h] for h, a in enumerate(heads)], -1))
    torch.testing.assert_close(y, mixer(x)[0].detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(mean, (heads[0] + heads[1]) / 2)
    for a in heads:
        torch.testing.assert_close(a.sum(1), torch.ones(7).double())
        assert torch.equal(a, a.tril())


def test_heads_of_performer_that_do_not_divide_are_errors() -> None:
    with pytest.raises(ValueError, match="choose heads from 1, 2, 4, 8"):
        mixer_config({"kind": "performer", "heads": 3}).build(D, None)


def performer_of(heads: int, **features: Callable[[Array, Array], Array]) -> Recurrence:
    return lambda x, w: performer(x, w, heads, **features)


LETTERS = {**PROJECTIONS, "directions": "omega"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "performer": ({"kind": "performer", "heads": 2}, performer_of(2)),
    "performer, 8 heads": ({"kind": "performer", "heads": 8, "features": 3}, performer_of(8)),
    "performer, hyperbolic": (
        {"kind": "performer", "heads": 2, "features": 5, "kernel": "hyperbolic"},
        performer_of(2, features=hyperbolic),
    ),
    "performer, relu": (
        {"kind": "performer", "heads": 2, "features": 5, "kernel": "relu"},
        performer_of(2, features=partial(rectified, **GUARDS["relu"])),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_performer_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
