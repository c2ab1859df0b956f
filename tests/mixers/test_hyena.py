"""Hyena against its definition, number by number; streaming; cached filters, which never become stale."""

import copy
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.convolution import hyena
from seqloom.mixers.convolution.hyena import Hyena
from seqloom.ops.backends import use
from tests.mixers.equation import Case, Recurrence, check_equation, check_long
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.hyena import authors_rates, implicit
from tests.mixers.recurrences.hyena import hyena as equation

D, L = 4, 6
SMALL = {"filter_dim": 5, "features": 2, "frequency": 3.0}


def build(context: int = L, **settings: object) -> Hyena:
    mixer = mixer_config({"kind": "hyena", **SMALL, **settings}).build(D, context).double()
    assert isinstance(mixer, Hyena)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tap(mixer: Hyena, n: int, t: int, c: int) -> float:
    """h^n of channel c at lag t, without the bias."""
    shape = mixer.shape
    angles = [2 * math.pi * k * t / shape.context for k in range(shape.features)]
    y = [t / max(shape.context - 1, 1), *map(math.cos, angles), *map(math.sin, angles)]
    layers = [mixer.filter_in, *mixer.filter_hidden]
    omega = mixer.frequency.tolist()
    for layer in layers:
        rows, shifts = layer.weight.tolist(), layer.bias.tolist()
        y = [
            math.sin(w * (sum(a * b for a, b in zip(row, y, strict=True)) + shift))
            for w, row, shift in zip(omega, rows, shifts, strict=True)
        ]
    result = sum(a * b for a, b in zip(mixer.filter_out.weight[n * D + c].tolist(), y, strict=True))
    alpha = math.log(100) * (1 / shape.slow + c / (D - 1) * (1 / shape.fast - 1 / shape.slow))
    return result * (math.exp(-alpha * t / max(shape.context - 1, 1)) + shape.floor)


def defined(mixer: Hyena, x: Tensor) -> Tensor:
    """The definition for one row (T, D), sum by sum."""
    T, context = len(x), mixer.shape.context
    projected, w = (x @ mixer.in_proj.weight.mT).tolist(), mixer.short.tolist()
    short = [
        [sum(w[k][c] * projected[t - k][c] for k in range(min(t + 1, len(w)))) for c in range(len(w[0]))]
        for t in range(T)
    ]
    z = [row[:D] for row in short]
    for n in range(mixer.order):
        h = [[tap(mixer, n, t, c) for c in range(D)] for t in range(context)]
        z = [
            [
                short[t][(n + 1) * D + c]
                * (sum(h[k][c] * z[t - k][c] for k in range(min(t + 1, context))) + float(mixer.bias[n, c]) * z[t][c])
                for c in range(D)
            ]
            for t in range(T)
        ]
    return torch.tensor(z, dtype=torch.float64) @ mixer.out_proj.weight.mT


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": 1, "short": 1, "filter_depth": 2},
        {"order": 3, "filter_depth": 3, "features": 1, "slow_decay": 1.0, "fast_decay": 0.2, "floor": 0.3},
        {"context": 1},
        {"context": 40, "short": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["reference", "direct", "fft"])
def test_the_definition(settings: dict, backend: str) -> None:
    mixer, x = build(**settings), draw(2, 23, D)
    with use(lag_sum=backend):
        y = mixer(x)
    for row in range(2):
        torch.testing.assert_close(y[row], defined(mixer, x[row]), rtol=0, atol=1e-10)


def tokens(mixer: Hyena, x: Tensor, reuse: bool = True) -> Tensor:
    state, outputs = mixer.start(len(x)), []
    for position in range(x.shape[1]):
        y, state = mixer.step(x[:, position], state, reuse=reuse)
        outputs.append(y)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("gradients", [False, True])
def test_token_by_token_far_beyond_the_context(order: int, gradients: bool) -> None:
    mixer, x = build(order=order), draw(2, 4 * L, D)
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(tokens(mixer, x, reuse=not gradients), mixer(x), rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("backend", ["direct", "fft"])
def test_rows_of_hyena_of_different_lengths_read_on(backend: str) -> None:
    mixer, x = build(), draw(3, 20, D)
    keep = torch.arange(9) < torch.tensor([[9], [2], [0]])
    with use(lag_sum=backend):
        _, state = mixer.extend(x[:, :9], mixer.start(3), keep)
        piece, state = mixer.extend(x[:, 9:12], state)
        y, _ = mixer.step(x[:, 12], state)
        for row, read in enumerate((9, 2, 0)):
            alone = torch.cat([x[row, :read], x[row, 9:13]])[None]
            expected = mixer(alone)[0, -4:]
            torch.testing.assert_close(torch.cat([piece[row], y[row, None]]), expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_one_long_convolution_reaches_as_far_as_the_context() -> None:
    mixer, x = build(order=1, short=1), draw(1, 3 * L, D)
    y = mixer(x)
    x[:, 4] += 1.0
    moved = (mixer(x) - y).abs().amax(-1)[0] > 1e-12
    assert moved.nonzero().flatten().tolist() == list(range(4, 4 + L))


CHANGES: dict[str, Callable[[Tensor], None]] = {
    "in place": lambda p: p.add_(0.1),
    "by way of data": lambda p: p.data.mul_(1.1),
    "as an array": lambda p: p.detach().numpy().__iadd__(0.1),
    "one number": lambda p: p.view(-1)[-1:].add_(0.1),
    "an optimizer": lambda p: (
        setattr(p, "grad", torch.ones_like(p)),
        torch.optim.AdamW([p], lr=0.1, fused=True).step(),
    )[1],
}


@pytest.mark.sample(3)
@torch.no_grad()
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "name", ["filter_in.weight", "filter_in.bias", "filter_hidden.1.weight", "filter_out.weight", "frequency", "bias"]
)
def test_a_changed_parameter_is_seen_by_the_next_token(change: str, name: str) -> None:
    mixer, x = build(), draw(2, L, D)
    _, state = mixer.extend(x[:, :-1], mixer.start(2))
    before, _ = mixer.step(x[:, -1], state)
    torch.testing.assert_close(before, mixer(x)[:, -1], rtol=0, atol=1e-12)
    CHANGES[change](mixer.get_parameter(name))
    after, _ = mixer.step(x[:, -1], state)
    fresh = build()
    fresh.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(after, fresh.step(x[:, -1], state)[0], rtol=0, atol=1e-12)
    assert float((after - before).abs().max()) > 1e-6


@pytest.mark.slow
@torch.no_grad()
def test_loaded_weights_another_type_and_copies_are_seen() -> None:
    mixer, other, x = build(), build(), draw(1, 9, D)
    tokens(mixer, x)
    for parameter in other.parameters():
        parameter.mul_(0.9)
    mixer.load_state_dict(other.state_dict())
    torch.testing.assert_close(tokens(mixer, x), other(x), rtol=0, atol=1e-12)
    single = tokens(mixer.float(), x.float())
    torch.testing.assert_close(single.double(), other(x), rtol=1e-4, atol=1e-4)
    for again in (copy.deepcopy(mixer), pickle.loads(pickle.dumps(mixer))):
        again.filter_out.weight.zero_()
        assert float((tokens(again, x.float()) - single).abs().max()) > 1e-3
        assert torch.equal(tokens(mixer, x.float()), single)


@torch.no_grad()
def test_each_tap_is_worked_out_once_and_none_beyond_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x, asked = build(), draw(2, 3 * L, D), []
    made = hyena.filters
    monkeypatch.setattr(hyena, "filters", lambda *args: (asked.append(args[-2:]), made(*args))[1])
    tokens(mixer, x)
    assert asked == [(t, t + 1) for t in range(L)]
    tokens(mixer, x)
    assert len(asked) == L
    with torch.enable_grad():
        mixer.step(x[:, 0], mixer.start(2))
    assert asked[L:] == [(0, 1)]


def test_filters_kept_in_inference_mode_are_added_to_outside_of_it() -> None:
    mixer, x = build(), draw(1, L, D)
    with torch.inference_mode():
        _, state = mixer.step(x[:, 0], mixer.start(1))
    with torch.no_grad():
        for position in range(1, L):
            y, state = mixer.step(x[:, position], state)
        torch.testing.assert_close(y, mixer(x)[:, -1], rtol=0, atol=1e-12)
    with torch.inference_mode():
        torch.testing.assert_close(mixer.step(x[:, 0], mixer.start(1))[0], mixer(x)[:, 0], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_gradients_reach_every_parameter_through_pieces_and_tokens() -> None:
    mixer, x = build(), draw(1, 9, D)
    names = [name for name, _ in mixer.named_parameters()]
    expected = torch.autograd.grad(mixer(x).square().sum(), list(mixer.parameters()))
    with torch.no_grad():
        tokens(mixer, x)  # cached filters must not replace those that gradients flow through
    first, state = mixer.extend(x[:, :5], mixer.start(1))
    outputs = [first]
    for position in range(5, 9):
        y, state = mixer.step(x[:, position], state)
        outputs.append(y[:, None])
    gradients = torch.autograd.grad(torch.cat(outputs, 1).square().sum(), list(mixer.parameters()))
    for name, one, other in zip(names, gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8, msg=name)


@torch.no_grad()
def test_the_filters_do_not_lose_their_shape_in_bfloat16() -> None:
    """As they are at the start, with ω = 14: 8 bits of an angle of 40 would be an error of 0.15."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "hyena"}).build(16, 64).bfloat16()
    exact = copy.deepcopy(mixer).double()
    gap = mixer._filters(0, 64).double() - exact._filters(0, 64)
    assert float(gap.square().mean().sqrt() / exact._filters(0, 64).square().mean().sqrt()) < 5e-3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single = copy.deepcopy(mixer).float()
        gap = single._filters(0, 64) - exact._filters(0, 64)
    assert float(gap.abs().max()) < 1e-4


def test_initial_values_and_parameters_without_decay() -> None:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "hyena"}).build(16, 64)
    mixer.reset(0.01)
    assert float(mixer.in_proj.weight.detach().std()) == pytest.approx(0.01, rel=0.2)
    assert mixer.frequency.tolist() == [14.0] * 64
    assert float(mixer.filter_hidden[0].weight.detach().abs().max()) <= 1 / 8
    assert float(mixer.short.detach().abs().max()) <= 3**-0.5
    (rest, made) = mixer.param_groups()
    assert made["weight_decay"] == 0.0
    assert {id(p) for p in rest["params"]} == {
        id(p) for p in (mixer.in_proj.weight, mixer.short, mixer.out_proj.weight)
    }


@pytest.mark.parametrize(
    ("settings", "context", "words"),
    [({}, None, "needs a context"), ({"order": 0}, 5, "order"), ({"filter_depth": 1}, 5, "filter_depth")],
)
def test_refusals_of_hyena(settings: dict, context: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "hyena", **settings}).build(D, context)


HIDDEN = 2


def hyena_of(context: int, *, slow: float = 1.5, fast: float = 0.3, floor: float = 0.05) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        width = x.shape[1]
        layers = [
            (w[name], w.get(f"{name}_b", np.zeros(w[name].shape[1])))
            for name in ("first", "hidden_0", "hidden_1", "last")
            if name in w
        ]
        filters = implicit(context, width, layers, w["omega"], authors_rates(width, slow, fast), floor)
        # The mixer's parts begin with v, Algorithm 1's end with it.
        ordered = {name: np.roll(w[name], -width, 1) for name in ("w_in", "taps")}
        return equation(x, {**w, **ordered}, filters)

    return recurrence


LETTERS = {
    **{"in_proj.weight": "w_in", "short": "taps", "bias": "biases", "out_proj.weight": "w_out"},
    **{"frequency": "omega", "filter_in.weight": "first", "filter_in.bias": "first_b", "filter_out.weight": "last"},
    **{f"filter_hidden.{i}.weight": f"hidden_{i}" for i in range(HIDDEN)},
    **{f"filter_hidden.{i}.bias": f"hidden_{i}_b" for i in range(HIDDEN)},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "hyena": ({"kind": "hyena", "filter_dim": 5, "features": 3}, hyena_of(32)),
    "hyena, order 1": ({"kind": "hyena", "order": 1, "filter_dim": 4, "features": 1, "filter_depth": 2}, hyena_of(32)),
    "hyena, order 3": (
        {
            **{"kind": "hyena", "order": 3, "short": 2, "filter_dim": 4, "features": 2, "filter_depth": 3},
            **{"slow_decay": 1.0, "fast_decay": 0.2, "floor": 0.1},
        },
        hyena_of(32, slow=1.0, fast=0.2, floor=0.1),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_hyena_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_hyena_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)
