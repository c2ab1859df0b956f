"""The walk of `averages` in log2 T passes over whole tensors, each of which doubles the tokens in a position's average.

After a pass a position has the average over its last n tokens; the next pass joins it with that of the position n
before, decayed by n steps. This is T log2 T work in a few large operations, for devices and graphs where many small
ones are slow. Nothing is written in place, so that the backward pass can be differentiated too.
"""

import torch
from torch import Tensor


def forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`."""
    means, logs = torch.cat([mean[:, None], v], 1), torch.cat([log[:, None], k], 1)
    n = 1
    while n < logs.shape[1]:
        earlier, later = (logs[:, :-n] if w is None else logs[:, :-n] - n * w), logs[:, n:]
        odds = later - earlier
        means = torch.cat([means[:, :n], torch.lerp(means[:, :-n], means[:, n:], torch.sigmoid(odds))], 1)
        logs = torch.cat([logs[:, :n], torch.logaddexp(earlier, later)], 1)
        n *= 2
    if w is None and u is None:
        return means[:, 1:].clone(), means, logs
    return torch.lerp(means[:, :-1], v, _share(k - logs[:, :-1], u)), means, logs


def backward(
    inputs: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    mean: Tensor,
    log: Tensor,
    dy: Tensor,
    dmean: Tensor | None,
    dlog: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
    """See `averages.Walk`."""
    k, v, w, u = inputs
    nothing = torch.zeros_like(mean)
    dmean, dlog = nothing if dmean is None else dmean, nothing if dlog is None else dlog
    odds, away = k - log[:, :-1], v - mean[:, :-1]
    g, s = _share(odds, w), _share(odds, u)
    keeps, to_mean_before = 1 - g, dy * (1 - s)
    e = to_mean_before * s * away
    M = _back(keeps, to_mean_before + dmean[:, :-1], dmean[:, -1:])
    f = g * keeps * M[:, 1:] * away
    N = _back(keeps, dlog[:, :-1] - e - f, dlog[:, -1:])
    dw = None if w is None else (f - keeps * N[:, 1:]).sum((0, 1))
    du = None if u is None else e.sum((0, 1))
    return e + f + g * N[:, 1:], s * dy + g * M[:, 1:], dw, du, M[:, 0], N[:, 0]


def _share(odds: Tensor, raised: Tensor | None) -> Tensor:
    return torch.sigmoid(odds if raised is None else odds + raised)


def _back(keeps: Tensor, terms: Tensor, last: Tensor) -> Tensor:
    """R (B, N+1, D) with R_N = last and R_n = keeps_n R_{n+1} + terms_n."""
    R, through = torch.cat([terms, last], 1), torch.cat([keeps, torch.zeros_like(last)], 1)
    n = 1
    while n < R.shape[1]:
        R = torch.cat([R[:, :-n] + through[:, :-n] * R[:, n:], R[:, -n:]], 1)
        through = torch.cat([through[:, :-n] * through[:, n:], through[:, -n:]], 1)
        n *= 2
    return R
