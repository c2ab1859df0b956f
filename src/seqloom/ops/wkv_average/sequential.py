"""The walk of `averages` token by token, in place: few operations for each token, on any length.

Tokens are taken in spans, so that what is computed for a whole span at once stays in a core's cache.
"""

import torch
from torch import Tensor

SPAN = 32
"""tokens of a span: measured on one CPU core (docs/log.md)"""


def forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`."""
    B, T, D = k.shape
    y, means, logs = k.new_empty(B, T, D), k.new_empty(B, T + 1, D), k.new_empty(B, T + 1, D)
    means[:, 0], logs[:, 0] = mean, log
    keys, values, each_mean, each_log = (x.unbind(1) for x in (k, v, means, logs))
    decayed = torch.empty_like(log)
    for first in range(0, T, SPAN):
        last = min(first + SPAN, T)
        span = slice(first, last)
        for t in range(first, last):
            past = each_log[t] if w is None else torch.sub(each_log[t], w, out=decayed)
            torch.logaddexp(past, keys[t], out=each_log[t + 1])
        odds = k[:, span] - logs[:, span]
        g = _share(odds, w)
        for t, share in zip(range(first, last), g.unbind(1), strict=True):
            torch.lerp(each_mean[t], values[t], share, out=each_mean[t + 1])
        if w is None and u is None:
            y[:, span] = means[:, first + 1 : last + 1]
        else:
            torch.lerp(means[:, span], v[:, span], _share(odds, u), out=y[:, span])
    return y, means, logs


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
    T = k.shape[1]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    dw, du = (None if tensor is None else torch.zeros_like(tensor) for tensor in (w, u))
    to_mean, to_log = (torch.zeros_like(k[:, 0]) if tensor is None else tensor[:, T] for tensor in (dmean, dlog))
    for first in reversed(range(0, T, SPAN)):
        span = slice(first, min(first + SPAN, T))
        odds, away = k[:, span] - log[:, span], v[:, span] - mean[:, span]
        g = _share(odds, w)
        s = g if w is None and u is None else _share(odds, u)
        keeps = 1 - g
        to_value = dy[:, span] * s
        to_mean_before = dy[:, span] - to_value
        e = to_mean_before * s * away
        M = _back(keeps, to_mean_before if dmean is None else to_mean_before + dmean[:, span], to_mean)
        to_mean, M = M[:, 0], M[:, 1:]
        received = g * M
        f = received * keeps * away
        both = e + f
        N = _back(keeps, -both if dlog is None else dlog[:, span] - both, to_log)
        to_log, N = N[:, 0], N[:, 1:]
        torch.add(to_value, received, out=dv[:, span])
        torch.addcmul(both, g, N, out=dk[:, span])
        if dw is not None:
            dw += (f - keeps * N).sum((0, 1))
        if du is not None:
            du += e.sum((0, 1))
    return dk, dv, dw, du, to_mean.clone(), to_log.clone()


def _share(odds: Tensor, raised: Tensor | None) -> Tensor:
    return torch.sigmoid(odds if raised is None else odds + raised)


def _back(keeps: Tensor, terms: Tensor, last: Tensor) -> Tensor:
    """R (B, N+1, D) with R_N = last and R_n = keeps_n R_{n+1} + terms_n."""
    B, N, D = keeps.shape
    R = keeps.new_empty(B, N + 1, D)
    R[:, N] = last
    slopes, rests, givens = R.unbind(1), keeps.unbind(1), terms.unbind(1)
    for n in reversed(range(N)):
        torch.addcmul(givens[n], rests[n], slopes[n + 1], out=slopes[n])
    return R
