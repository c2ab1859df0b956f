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

from seqloom.ops.state_space.pole_fit.starts import FASTEST
from seqloom.ops.state_space.pole_fit.weights import Target, misfit, norms, waves

LARGEST_CHANGE = 1.0
"""the largest change of a, and of ω in radians, in one step"""


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
        change_c, change_a, change_omega = _step(a, c, wave, r, target, mu)
        new_a = (a + change_a.clamp(-LARGEST_CHANGE, LARGEST_CHANGE)).clamp(slowest, fastest)
        new_omega = omega + change_omega.clamp(-LARGEST_CHANGE, LARGEST_CHANGE)
        new_c = c + change_c
        new_wave = waves(torch.complex(-new_a.exp(), new_omega), target)
        new_r, new_cost = misfit(new_wave, new_c, target)
        lower = (new_cost < cost)[:, None]
        a = torch.where(lower, new_a, a)
        omega = torch.where(lower, new_omega, omega)
        c = torch.where(lower, new_c, c)
        wave = torch.where(lower[..., None], new_wave, wave)
        r = torch.where(lower, new_r, r)
        cost = torch.where(lower[:, 0], new_cost, cost)
        mu = torch.where(lower, mu / 3, mu * 4).clamp(1e-14, 1e8)
    return Refined(torch.complex(-a.exp(), omega), c, cost)


def _step(a: Tensor, c: Tensor, wave: Tensor, r: Tensor, target: Target, mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The changes of c, a and ω (D, N): the solution of the system of the equation above."""
    N, zeros = c.shape[1], torch.zeros_like(a)
    slope = c[..., None] * target.lag * wave  # the derivative of c λ^k by ln λ
    slope_a = -a.exp()[..., None] * slope.real
    J = 2 * torch.cat([wave.real, -wave.imag, slope_a, -slope.imag], 1)  # (D, 4N, K)
    ridge = (target.epsilon[:, None] * norms(wave)).square()
    right_side = (J @ r[..., None])[..., 0]
    right_side = right_side - torch.cat([ridge * c.real, ridge * c.imag, zeros, zeros], 1)
    matrix = J @ J.mT + torch.diag_embed(torch.cat([ridge, ridge, zeros, zeros], 1))
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    damping = mu * (diagonal + 1e-12 * diagonal.amax(1, keepdim=True)) + 1e-300  # above 0 even where all taps are 0
    step = torch.linalg.solve_ex(matrix + torch.diag_embed(damping), right_side[..., None]).result[..., 0]
    step = torch.where(step.isfinite(), step, 0.0)
    real, imaginary, change_a, change_omega = step.split(N, 1)
    return torch.complex(real, imaginary), change_a, change_omega
