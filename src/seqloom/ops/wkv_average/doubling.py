"""The walk of `averages` in log2 T passes over whole tensors, each of which doubles the tokens averaged at a position.

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
    means: Tensor,
    logs: Tensor,
    dy: Tensor,
    dmeans: Tensor | None,
    dlogs: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
    """See `averages.Walk`."""
    k, v, w, u = inputs
    zeros = torch.zeros_like(means)
    dmeans, dlogs = zeros if dmeans is None else dmeans, zeros if dlogs is None else dlogs
    odds, difference = k - logs[:, :-1], v - means[:, :-1]
    g, s = _share(odds, w), _share(odds, u)
    rest, dy_rest = 1 - g, dy * (1 - s)
    e = dy_rest * s * difference
    M = _back(rest, dy_rest + dmeans[:, :-1], dmeans[:, -1:])
    f = g * rest * M[:, 1:] * difference
    N = _back(rest, dlogs[:, :-1] - e - f, dlogs[:, -1:])
    dw = None if w is None else (f - rest * N[:, 1:]).sum((0, 1))
    du = None if u is None else e.sum((0, 1))
    return e + f + g * N[:, 1:], s * dy + g * M[:, 1:], dw, du, M[:, 0], N[:, 0]


def _share(odds: Tensor, offset: Tensor | None) -> Tensor:
    """σ(odds + offset), for an offset w or u, None for 0."""
    return torch.sigmoid(odds if offset is None else odds + offset)


def _back(factors: Tensor, terms: Tensor, last: Tensor) -> Tensor:
    """R (B, N+1, D) with R_N = last and R_n = factors_n R_{n+1} + terms_n."""
    R, product = torch.cat([terms, last], 1), torch.cat([factors, torch.zeros_like(last)], 1)
    n = 1
    while n < R.shape[1]:
        R = torch.cat([R[:, :-n] + product[:, :-n] * R[:, n:], R[:, -n:]], 1)
        product = torch.cat([product[:, :-n] * product[:, n:], product[:, -n:]], 1)
        n *= 2
    return R
