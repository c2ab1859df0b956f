"""Refines poles and weights together by the Levenberg-Marquardt method.

    (JᵀJ + ε² s² + μ diag(JᵀJ)) step = Jᵀ r - ε² s² c        over the parts of c, and a and ω of ln λ = -e^a + iω

A step that lowers the misfit is taken and μ decreases; otherwise it is rejected and μ increases. Every channel has its
own μ. With the parameter a every pole stays inside the unit circle.

Source: Levenberg 1944, Marquardt 1963. The dependence of s on a is left out of J.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.ops.pole_fit.starts import FASTEST
from seqloom.ops.pole_fit.weights import Target, loudness, misfit, waves

LEAP = 1.0
"""the largest change of a, and of ω in radians, by a step"""


class Refined(NamedTuple):
    """Rates and weights (D, N), and the minimized sum (D,) of `weights.misfit`."""

    rates: Tensor
    weights: Tensor
    cost: Tensor


def refine(rates: Tensor, weights: Tensor, target: Target, steps: int) -> Refined:
    """The poles after `steps` steps; the misfit of no channel is larger than before."""
    a, omega, c = torch.log(-rates.real), rates.imag, weights
    slowest, fastest = math.log(target.slowest), math.log(FASTEST)
    mu = torch.full((len(a), 1), 1e-3, dtype=a.dtype)
    wave = waves(rates, target)
    r, cost = misfit(wave, c, target)
    for _ in range(steps):
        by_c, by_a, by_omega = _step(a, c, wave, r, target, mu)
        tried = (
            (a + by_a.clamp(-LEAP, LEAP)).clamp(slowest, fastest),
            omega + by_omega.clamp(-LEAP, LEAP),
            c + by_c,
        )
        new = waves(torch.complex(-tried[0].exp(), tried[1]), target)
        left, sum_left = misfit(new, tried[2], target)
        helps = (sum_left < cost)[:, None]
        a, omega, c = (torch.where(helps, there, here) for there, here in zip(tried, (a, omega, c), strict=True))
        wave, r = torch.where(helps[..., None], new, wave), torch.where(helps, left, r)
        cost = torch.where(helps[:, 0], sum_left, cost)
        mu = torch.where(helps, mu / 3, mu * 4).clamp(1e-14, 1e8)
    return Refined(torch.complex(-a.exp(), omega), c, cost)


def _step(a: Tensor, c: Tensor, wave: Tensor, r: Tensor, target: Target, mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The changes of c, a and ω (D, N)."""
    N, slope = c.shape[1], c[..., None] * target.lag * wave
    by_rate = -a.exp()[..., None] * slope.real
    J = 2 * torch.cat([wave.real, -wave.imag, by_rate, -slope.imag], 1)  # (D, 4N, K)
    ridge = (target.epsilon[:, None] * loudness(wave)).square()
    down = (J @ r[..., None])[..., 0]
    down = down - torch.cat([ridge * c.real, ridge * c.imag, 0 * a, 0 * a], 1)
    curve = J @ J.mT + torch.diag_embed(torch.cat([ridge, ridge, 0 * a, 0 * a], 1))
    steep = curve.diagonal(dim1=1, dim2=2)
    damp = mu * (steep + 1e-12 * steep.amax(1, keepdim=True)) + 1e-300  # else singular where all taps are 0
    move = torch.linalg.solve_ex(curve + torch.diag_embed(damp), down[..., None]).result[..., 0]
    move = torch.where(move.isfinite(), move, 0.0)
    real, imaginary, by_a, by_omega = move.split(N, 1)
    return torch.complex(real, imaginary), by_a, by_omega
