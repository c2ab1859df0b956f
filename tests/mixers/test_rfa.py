"""RFA: the quadratic form written out, a Gaussian kernel in the limit of many directions, gates, floor and draws."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation, check_without_guards
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.rfa import rfa

D, H = 8, 2
K = D // H
every_gate = pytest.mark.parametrize("gate", [False, True])


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def build_rfa(gate: bool, *, std: float = 0.5, seed: int = 0, **settings: Any) -> Mixer:
    torch.manual_seed(seed)
    mixer = mixer_config({"kind": "rfa", "heads": H, "gate": gate, **settings}).build(D, None).double()
    with torch.no_grad():
        for n, (name, parameter) in enumerate(mixer.named_parameters()):
            drawn = numbers(*parameter.shape, seed=n, scale=std)
            parameter.copy_(1 + 0.3 * drawn if name == "sigma" else drawn)
    return mixer


def kernel(q: Tensor, k: Tensor, sigma: Tensor, w: Tensor) -> Tensor:
    """The estimate for one query and key (K,): the mean cosine of their difference along σ ∘ w."""
    q, k = (x / (x @ x + 1e-6).sqrt() for x in (q, k))
    return (w @ (sigma * (q - k))).cos().mean()


def weights(mixer: Mixer, x: Tensor, t: int, h: int) -> tuple[Tensor, Tensor]:
    """How much query t of head h takes of each value up to t, before they are divided, and the same for a kernel 1."""
    q, k = ((x @ w.weight.T).unflatten(1, (H, K))[:, h] for w in (mixer.w_q, mixer.w_k))
    a = torch.stack([kernel(q[t], k[j], mixer.sigma[h], mixer.directions[h]) for j in range(t + 1)])
    if mixer.w_gate is None:
        return a, torch.ones_like(a)
    g = torch.sigmoid(x @ mixer.w_gate.weight[h] + mixer.w_gate.bias[h])
    held = torch.stack([(1 - g[j]) * g[j + 1 : t + 1].prod() for j in range(t + 1)])
    return a * held, held


def quadratic(mixer: Mixer, x: Tensor) -> Tensor:
    """Every weight of one row x (T, D), computed one at a time."""
    v = (x @ mixer.w_v.weight.T).unflatten(1, (H, K))
    outputs = []
    for t in range(len(x)):
        each = [weights(mixer, x, t, h) for h in range(H)]
        heads = [a @ v[: t + 1, h] / a.sum().clamp(min=0.1 * held.sum()) for h, (a, held) in enumerate(each)]
        outputs.append(torch.cat(heads))
    return torch.stack(outputs) @ mixer.w_out.weight.T


@pytest.mark.slow
@every_gate
@pytest.mark.parametrize("features", [0, 1, 7])
def test_rfa_is_its_quadratic_form(gate: bool, features: int) -> None:
    mixer = build_rfa(gate, features=features)
    results = []
    for read in (mixer, lambda x: torch.stack([quadratic(mixer, row) for row in x])):
        mixer.zero_grad()
        x = numbers(2, 9, D, seed=5).requires_grad_()
        y = read(x)
        (y * numbers(2, 9, D, seed=6)).sum().backward()
        results.append([y.detach(), x.grad, *(parameter.grad for parameter in mixer.parameters())])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_the_floor_under_the_normaliser_is_reached_in_these_tests() -> None:
    mixer = build_rfa(True, features=1)
    each = [weights(mixer, x, t, h) for x in numbers(2, 9, D, seed=5) for t in range(9) for h in (0, 1)]
    below = [bool(a.sum() < 0.1 * held.sum()) for a, held in each]
    assert 0 < sum(below) < len(below)


def limit(mixer: Mixer, x: Tensor, s: float) -> Tensor:
    """Attention over one row (T, D) with e^{s² q̂·k̂} for its weights."""
    q, k = ((x @ w.weight.T).unflatten(1, (H, K)).transpose(0, 1) for w in (mixer.w_q, mixer.w_k))
    q, k = (z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt() for z in (q, k))
    z = (s * s * q @ k.mT).masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
    v = (x @ mixer.w_v.weight.T).unflatten(1, (H, K)).transpose(0, 1)
    return (z.softmax(-1) @ v).transpose(0, 1).flatten(1) @ mixer.w_out.weight.T


@pytest.mark.slow
def test_with_many_directions_it_is_softmax_attention_of_unit_vectors() -> None:
    """The mean squared error falls like 1/R: its slope over log R is -1, within its standard error."""
    s, x, sizes, seeds, logs, errors = 0.8, numbers(12, D, seed=5), (64, 256, 1024), 24, [], []
    for R in sizes:
        squares = []
        for seed in range(seeds):
            mixer = build_rfa(False, seed=seed, features=R)
            with torch.no_grad():
                mixer.sigma.fill_(s)
                squares.append(float((mixer(x[None])[0] - limit(mixer, x, s)).square().mean()))
        mean = sum(squares) / seeds
        spread = math.sqrt(sum((square - mean) ** 2 for square in squares) / (seeds - 1) / seeds)
        logs.append(math.log2(mean))
        errors.append(spread / mean / math.log(2))
    run = math.log2(sizes[-1] / sizes[0])
    slope, error = (logs[-1] - logs[0]) / run, math.hypot(errors[-1], errors[0]) / run
    assert abs(slope + 1) < 3 * error, f"the slope is {slope:.3f} ± {error:.3f}"
    assert error < 0.1, "too few draws to say anything"
    with torch.no_grad():
        flat = float((limit(mixer, x, 0.0) - limit(mixer, x, s)).square().mean())
    assert 2 ** logs[-1] < 0.1 * flat, "no nearer to attention than to a plain mean of the values"


def constant_gate(bias: float, **settings: Any) -> Mixer:
    mixer = build_rfa(True, **settings)
    with torch.no_grad():
        mixer.w_gate.weight.zero_()
        mixer.w_gate.bias.fill_(bias)
    return mixer


def test_a_shut_gate_keeps_only_the_token() -> None:
    mixer, x = constant_gate(-300.0, features=64), numbers(1, 30, D)
    with torch.no_grad():
        mixer.sigma.fill_(0.3)  # products near 1, so that the floor is far
        torch.testing.assert_close(mixer(x), mixer.w_out(mixer.w_v(x)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [0.0, 4.0, 20.0])
def test_the_first_output_is_the_value_read_however_little_the_gate_takes_in(bias: float, dtype: torch.dtype) -> None:
    mixer, x = constant_gate(bias, features=64).to(dtype), numbers(5, 1, D).to(dtype)
    bound = 1e-10 if dtype == torch.float64 else 1e-4
    with torch.no_grad():
        mixer.sigma.fill_(0.3)
        expected = mixer.w_out(mixer.w_v(x))
        torch.testing.assert_close(mixer(x), expected, rtol=bound, atol=bound)
        torch.testing.assert_close(mixer.step(x[:, 0], mixer.start(5))[0], expected[:, 0], rtol=bound, atol=bound)


@pytest.mark.parametrize("features", [1, 64])
def test_a_gate_nearly_open_is_no_gate(features: int) -> None:
    """What all weights have in common cancels, with one direction at the floor too."""
    gated, plain, x = constant_gate(25.0, features=features), build_rfa(False, features=features), numbers(2, 30, D)
    plain.load_state_dict({n: tensor for n, tensor in gated.state_dict().items() if "gate" not in n})
    with torch.no_grad():
        torch.testing.assert_close(gated(x), plain(x), rtol=0, atol=1e-8)


@every_gate
def test_padding_adds_no_weight(gate: bool) -> None:
    """At the floor, dropped tokens before, between and after leave outputs and state as they were."""
    mixer, x = build_rfa(gate, features=1), numbers(2, 12, D)
    keep = torch.tensor([[False, True] * 6, [True] * 5 + [False] * 7])
    with torch.no_grad():
        first, state = mixer.extend(x, mixer.start(2), keep)
        second, state = mixer.extend(x, state, keep)
        for row in range(2):
            real = x[row : row + 1, keep[row]]
            expected, after = mixer.extend(torch.cat([real, real], 1), mixer.start(1))
            actual = torch.cat([first[row, keep[row]], second[row, keep[row]]])
            torch.testing.assert_close(actual, expected[0], rtol=0, atol=1e-10)
            assert state.keys() == after.keys()
            for name, tensor in after.items():
                torch.testing.assert_close(state[name][row], tensor[0], rtol=0, atol=1e-10)


@every_gate
def test_new_directions_come_when_they_are_due_and_from_the_checkpoint(gate: bool) -> None:
    mixer = build_rfa(gate, redraw_every=2)
    changes = []
    for step in range(1, 6):
        before = copy.deepcopy(mixer.state_dict())
        mixer.after_update(step, {})
        changes.append({n for n, tensor in mixer.state_dict().items() if not torch.equal(tensor, before[n])})
    assert changes == [set(), {"directions", "seed"}, set(), {"directions", "seed"}, set()]
    other = build_rfa(gate, seed=9, redraw_every=2)
    other.load_state_dict(copy.deepcopy(mixer.state_dict()))
    for step in range(6, 11):
        mixer.after_update(step, {})
        torch.randn(3)  # what else is drawn in between does not matter
        other.after_update(step, {})
        assert torch.equal(mixer.directions, other.directions)
    assert torch.equal(mixer(numbers(1, 4, D)), other(numbers(1, 4, D)))
    never = build_rfa(gate, redraw_every=0)
    before = never.directions.clone()
    never.after_update(4, {})
    assert torch.equal(never.directions, before)


def test_reset_initializes_all_but_the_directions_again() -> None:
    mixer = build_rfa(True)
    before = mixer.directions.clone()
    mixer.reset(0.02)
    assert torch.equal(mixer.directions, before)
    assert torch.equal(mixer.sigma, torch.ones(H, K).double())
    assert torch.equal(mixer.w_gate.bias, torch.zeros(H).double())
    undecayed = [group for group in mixer.param_groups() if group.get("weight_decay") == 0.0]
    assert [tensor for group in undecayed for tensor in group["params"]] == [mixer.sigma]


@every_gate
def test_it_is_stored_with_the_directions_it_has_now(gate: bool) -> None:
    mixer, x = build_rfa(gate), numbers(2, 6, D)
    first = mixer(x)
    mixer.after_update(1, {})
    now = mixer(x)
    assert not torch.equal(first, now)
    again = build_rfa(gate, seed=1)
    again.load_state_dict(mixer.state_dict())
    for stored in (again, copy.deepcopy(mixer), pickle.loads(pickle.dumps(mixer))):
        assert torch.equal(stored(x), now)
        stored.after_update(2, {})
        assert torch.equal(mixer(x), now), "the copy shares memory"


@every_gate
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1e-4, 1.0, 1e4])
def test_it_is_finite_whatever_it_reads(gate: bool, dtype: torch.dtype, scale: float) -> None:
    mixer = build_rfa(gate).to(dtype)
    x = numbers(2, 80, D, scale=scale).to(dtype).requires_grad_()
    y = mixer(x)
    y.float().square().sum().backward()
    assert bool(y.isfinite().all())
    assert bool(x.grad.isfinite().all())


@every_gate
def test_autocast_keeps_the_angles(gate: bool) -> None:
    mixer, x = build_rfa(gate, features=32).float(), numbers(2, 30, D).float()
    with torch.no_grad():
        expected = mixer(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = mixer(x)
    assert float((actual.float() - expected).norm() / expected.norm()) < 4e-2


@every_gate
def test_its_weights_and_gates_are_shown(gate: bool) -> None:
    mixer, x = build_rfa(gate), numbers(1, 7, D)
    with torch.no_grad():
        views = {view.name: view.values for view in mixer.plots(x)}
        heads = [views[f"weights of head {h}"] for h in range(H)]
        value = mixer.w_v(x)[0].view(7, H, K)
        y = mixer.w_out(torch.cat([a @ value[:, h] for h, a in enumerate(heads)], -1))
    torch.testing.assert_close(y, mixer(x)[0].detach(), rtol=0, atol=1e-12)
    assert ("gates" in views) == gate
    assert all(torch.equal(a, a.tril()) for a in heads)


def test_heads_of_rfa_that_do_not_divide_are_errors() -> None:
    with pytest.raises(ValueError, match="choose heads from 1, 2, 4, 8"):
        mixer_config({"kind": "rfa", "heads": 3}).build(D, None)


def rfa_of(heads: int) -> Recurrence:
    return lambda x, w: rfa(x, w, heads, **GUARDS["rfa"])


LETTERS = {
    **PROJECTIONS,
    **{"directions": "directions", "sigma": "sigma", "w_gate.weight": "gate_w", "w_gate.bias": "gate_b"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "rfa": ({"kind": "rfa", "heads": 2}, rfa_of(2)),
    "rfa without a gate": ({"kind": "rfa", "heads": 2, "gate": False}, rfa_of(2)),
    "rfa, 8 heads": ({"kind": "rfa", "heads": 8, "features": 3}, rfa_of(8)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_rfa_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.parametrize("case", ["rfa", "rfa without a gate"])
def test_rfa_is_nearly_the_paper_without_its_guard(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_guards(*EQUATIONS[case], LETTERS, monkeypatch)
