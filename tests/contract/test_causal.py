"""No output depends on a later input, and no sequence longer than the mixer takes is read."""

import math

import torch

from seqloom.core.mixer import Mixer
from seqloom.ops.backends import use
from tests.contract.cases import DIM, Make, draw, every_mixer, fits, refused, streams

HUGE = 1e6


def gain(mixer: Mixer) -> float:
    """By how much the projections and taps can enlarge a number, loosely: the product of their largest sums."""
    product = 1.0
    for parameter in mixer.parameters():
        size = parameter.detach().abs().double().flatten(1) if parameter.ndim > 1 else parameter.detach().abs()[None]
        columns = parameter.detach().abs().flatten(0, -2).sum(0).max() if parameter.ndim > 1 else size.sum()
        product *= max(1.0, float(size.sum(1).max()), float(columns))
    return product


def leak(mixer: Mixer, T: int, change: float) -> float:
    """What the FFT may carry back: 8 eps · max|x| · Σ|w| · log2(2T), through the projections."""
    return 8 * torch.finfo(torch.float64).eps * change * gain(mixer) * math.log2(2 * T)


def by_perturbation(mixer: Mixer, x: torch.Tensor, exact: bool) -> None:
    bound = 0.0 if exact else leak(mixer, x.shape[1], HUGE)
    with torch.no_grad():
        y = mixer(x)
        for place in range(1, x.shape[1]):
            changed = x.clone()
            changed[:, place:] += HUGE * draw(*changed[:, place:].shape, seed=place).sign()
            gap = float((mixer(changed) - y)[:, :place].abs().max())
            assert gap <= bound, f"outputs before {place} moved by {gap:.3g} with later inputs; allowed {bound:.3g}"


def by_gradient(mixer: Mixer, x: torch.Tensor, exact: bool) -> None:
    x = x.clone().requires_grad_()
    y = mixer(x)
    for place in range(x.shape[1] - 1):
        out = draw(len(x), DIM, seed=place)
        (grad,) = torch.autograd.grad(y[:, place], x, out, retain_graph=True)
        bound = 0.0 if exact else leak(mixer, x.shape[1], max(1.0, float(out.abs().max())))
        gap = float(grad[:, place + 1 :].abs().max())
        assert gap <= bound, f"output {place} has a gradient {gap:.3g} to later inputs; allowed {bound:.3g}"
        assert float(grad[:, place].abs().max()) > 0, f"output {place} does not depend on its own input"


def check_causal(make: Make) -> None:
    """Promise 1; what is never causal must refuse to read on, and must really look ahead."""
    mixer = make()
    x = draw(2, fits(mixer, 9), DIM)
    if mixer.traits.causal != "always":
        refused(lambda: mixer.start(1))
        y = mixer(x)
        changed = x.clone()
        changed[:, -1] += 1.0
        assert not torch.equal(mixer(changed)[:, 0], y[:, 0]), "a mixer that is never causal does not look ahead"
        return
    for backend in ("direct", "reference"):
        with use(lag_sum=backend):
            by_perturbation(mixer, x, exact=True)
            by_gradient(mixer, x, exact=True)
    wide = make(context=16)
    x = draw(4, fits(wide, 21), DIM)
    for forced in ({}, {"lag_sum": "fft"}):  # by size, and in any case through the FFT
        with use(**forced):
            by_perturbation(wide, x, exact=False)
            by_gradient(wide, x, exact=False)


def check_longest(make: Make) -> None:
    """Any length where `longest` is None; one token more than `longest` is refused by every verb."""
    mixer = make()
    longest = mixer.traits.longest
    if longest is None:
        for T in (0, 1, 2, 50):
            assert mixer(draw(2, T, DIM)).shape == (2, T, DIM)
        return
    assert mixer(draw(2, longest, DIM)).shape == (2, longest, DIM)
    refused(lambda: mixer(draw(2, longest + 1, DIM)), str(longest))
    if streams(make):
        _, state = mixer.extend(draw(2, longest, DIM), mixer.start(2))
        refused(lambda: mixer.extend(draw(2, 1, DIM), state), str(longest))
        refused(lambda: mixer.step(draw(2, DIM), state), str(longest))
        refused(lambda: mixer.extend(draw(2, longest + 1, DIM), mixer.start(2)), str(longest))


@every_mixer
def test_no_output_depends_on_a_later_input(make: Make) -> None:
    check_causal(make)


@every_mixer
def test_lengths(make: Make) -> None:
    check_longest(make)


@every_mixer
def test_the_bound_of_the_fft_lets_no_leak_of_a_billionth_through(make: Make) -> None:
    assert leak(make(context=16), 21, HUGE) < 1e-9 * HUGE
