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
    each_k, each_v, each_mean, each_log = (x.unbind(1) for x in (k, v, means, logs))
    decayed = torch.empty_like(log)
    for first in range(0, T, SPAN):
        last = min(first + SPAN, T)
        span = slice(first, last)
        for t in range(first, last):
            past = each_log[t] if w is None else torch.sub(each_log[t], w, out=decayed)
            torch.logaddexp(past, each_k[t], out=each_log[t + 1])
        odds = k[:, span] - logs[:, span]
        g = _share(odds, w)
        for t, g_t in zip(range(first, last), g.unbind(1), strict=True):
            torch.lerp(each_mean[t], each_v[t], g_t, out=each_mean[t + 1])
        if w is None and u is None:
            y[:, span] = means[:, first + 1 : last + 1]
        else:
            torch.lerp(means[:, span], v[:, span], _share(odds, u), out=y[:, span])
    return y, means, logs


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
    T = k.shape[1]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    dw, du = (None if tensor is None else torch.zeros_like(tensor) for tensor in (w, u))
    dmean, dlog = (torch.zeros_like(k[:, 0]) if grads is None else grads[:, T] for grads in (dmeans, dlogs))
    for first in reversed(range(0, T, SPAN)):
        span = slice(first, min(first + SPAN, T))
        odds, difference = k[:, span] - logs[:, span], v[:, span] - means[:, span]
        g = _share(odds, w)
        s = g if w is None and u is None else _share(odds, u)
        rest = 1 - g
        dy_s = dy[:, span] * s
        dy_rest = dy[:, span] - dy_s
        e = dy_rest * s * difference
        M = _back(rest, dy_rest if dmeans is None else dy_rest + dmeans[:, span], dmean)
        dmean, M = M[:, 0], M[:, 1:]
        g_M = g * M
        f = g_M * rest * difference
        e_f = e + f
        N = _back(rest, -e_f if dlogs is None else dlogs[:, span] - e_f, dlog)
        dlog, N = N[:, 0], N[:, 1:]
        torch.add(dy_s, g_M, out=dv[:, span])
        torch.addcmul(e_f, g, N, out=dk[:, span])
        if dw is not None:
            dw += (f - rest * N).sum((0, 1))
        if du is not None:
            du += e.sum((0, 1))
    return dk, dv, dw, du, dmean.clone(), dlog.clone()


def _share(odds: Tensor, offset: Tensor | None) -> Tensor:
    """σ(odds + offset), for an offset w or u, None for 0."""
    return torch.sigmoid(odds if offset is None else odds + offset)


def _back(factors: Tensor, terms: Tensor, last: Tensor) -> Tensor:
    """R (B, N+1, D) with R_N = last and R_n = factors_n R_{n+1} + terms_n."""
    B, N, D = factors.shape
    R = factors.new_empty(B, N + 1, D)
    R[:, N] = last
    each_R, each_factor, each_term = R.unbind(1), factors.unbind(1), terms.unbind(1)
    for n in reversed(range(N)):
        torch.addcmul(each_term[n], each_factor[n], each_R[n + 1], out=each_R[n])
    return R
