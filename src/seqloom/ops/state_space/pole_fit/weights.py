"""The weights of given poles, by least squares.

    r_k = ρ_k (w_k - 2 Re Σ_n c_n λ_n^k),   w_k = 0 from L on;   ρ_k = 1 below L, √beyond from there
    min  Σ_k r_k² + ε² Σ_n s_n² |c_n|²,     s_n² = 4 Σ_k ρ_k² |λ_n|^{2k}

k is every lag from 1 to 2L, and then the lags 2L 2^{j/4}, each of which represents the lags up to the next one. ε
penalizes exponentials that are large and cancel each other, which float32 could not represent; it is a share of the
misfit, so that taps that can be fitted exactly are.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import lstsq

EPSILON, SHARE = 1e-7, 1e-3
"""the smallest ε, and ε as a share of the misfit"""
PER_DOUBLING, BEYOND = 4, 16
"""the number of lags from 2L on that are considered: in each doubling of the lag, and in all"""
SLOWEST = 1e-6
"""the smallest -L Re ln λ where `beyond` is 0; otherwise it is 1, a decay to 1/e at lag L"""


class Target(NamedTuple):
    """What the exponentials are fitted to, without lag 0."""

    lag: Tensor
    """k (K,), from 1"""
    importance: Tensor
    """ρ (K,)"""
    wanted: Tensor
    """ρ_k w_k (D, K)"""
    length: int
    """L"""
    slowest: float
    """the smallest rate of decay, -Re ln λ"""
    epsilon: Tensor
    """ε (D,)"""

    @staticmethod
    def of(w: Tensor, beyond: float) -> "Target":
        """The target of taps (D, L), channel first."""
        D, L = w.shape
        lag = torch.arange(1, L, dtype=w.dtype)
        importance = torch.ones_like(lag)
        if beyond:
            from_2L = torch.round(2 * L * 2 ** (torch.arange(BEYOND + 1, dtype=w.dtype) / PER_DOUBLING))
            from_L = torch.cat([torch.arange(L, 2 * L, dtype=w.dtype), from_2L])
            counts = from_L.diff()  # the number of lags that each one represents
            lag = torch.cat([lag, from_L[:-1]])
            importance = torch.cat([importance, (beyond * counts).sqrt()])
        wanted = torch.cat([w[:, 1:], w.new_zeros(D, len(lag) + 1 - L)], 1)
        slowest = (1 if beyond else SLOWEST) / L
        return Target(lag, importance, wanted, L, slowest, w.new_full((D,), EPSILON))

    def with_ridge(self, cost: Tensor) -> "Target":
        """The target with ε for the misfit `cost` (D,) that was reached."""
        return self._replace(epsilon=(SHARE * cost.sqrt()).clamp(min=EPSILON))


def waves(rates: Tensor, target: Target) -> Tensor:
    """ρ_k λ_n^k (D, N, K) for the rates ln λ (D, N)."""
    return torch.exp(rates[..., None] * target.lag) * target.importance


def norms(wave: Tensor) -> Tensor:
    """The norms s (D, N) of the exponentials `wave` (D, N, K)."""
    return 2 * wave.abs().square().sum(-1).sqrt()


def misfit(wave: Tensor, weights: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """The residual r (D, K), and the sum (D,) that is minimized, for the exponentials `wave` and weights c (D, N)."""
    r = target.wanted - 2 * (weights[..., None] * wave).real.sum(1)
    ridge = (target.epsilon[:, None] * norms(wave) * weights.abs()).square().sum(1)
    return r, r.square().sum(1) + ridge


def fit_weights(rates: Tensor, target: Target, used: Tensor | None = None) -> Tensor:
    """The weights c (D, N) of poles, by QR; 0 for poles that are not `used` (D, N)."""
    wave = waves(rates, target)
    if used is not None:
        wave = wave * used[..., None]
    s = norms(wave)
    s = torch.cat([s, s], 1)
    s = torch.where(s > 0, s, 1.0)
    A = 2 * torch.cat([wave.real, -wave.imag], 1) / s[..., None]
    ridge = target.epsilon[:, None, None] * torch.eye(s.shape[1], dtype=s.dtype)
    wanted = torch.cat([target.wanted, torch.zeros_like(s)], 1)
    c: Tensor = lstsq(torch.cat([A, ridge], 2).mT, wanted[..., None]).solution[..., 0] / s
    return torch.complex(*c.chunk(2, 1))
