"""The lag sum as a product of spectra along time, with a backward pass that reuses the transform of the taps.

    X = rfft(x), W = rfft(w) over n ≥ T + L - 1 points;   Y_f = X_f W_f;   y = irfft(Y)
    dX_f = dY_f W_f^H,   dW_f = X_f^H dY_f               the transform of w is saved, that of x recomputed

Time is made the last axis before each transform, which is up to 3 times faster on a CPU. Spectra are float32 or
float64, since torch has no complex half precision. Second derivatives are taken through the plain formula.

Source: the convolution theorem. The paper computes its sums directly.
"""

from typing import Any

import torch
from torch import Tensor


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D)."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    form = _Mixed if w.ndim > 2 else _Channels
    y: Tensor = form.apply(x.to(wide_dtype), w.to(wide_dtype))  # type: ignore[no-untyped-call]  # not typed by torch
    return y.to(dtype)


class _Channels(torch.autograd.Function):
    """The lag sum for channels that do not mix; spectra are (B, D, F)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        n = points(x.shape[1] + len(w) - 1)
        W = _channel_taps_spectrum(w, n)
        ctx.save_for_backward(x, w, W)
        ctx.n = n
        return _channel_signal(_channel_spectrum(x, n) * W, n, x.shape[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w, W = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives the spectrum must depend on w
            W = _channel_taps_spectrum(w, ctx.n)
        dY = _channel_spectrum(dy, ctx.n)
        dx = _channel_signal(dY * W.conj(), ctx.n, x.shape[1]) if ctx.needs_input_grad[0] else None
        dw = None
        if ctx.needs_input_grad[1]:
            dW = (_channel_spectrum(x, ctx.n).conj() * dY).sum(0 if w.ndim == 2 else (0, 1))
            dw = torch.fft.irfft(dW, ctx.n)[..., : len(w)]
            dw = dw.mT if w.ndim == 2 else dw
        return dx, dw


def _channel_taps_spectrum(w: Tensor, n: int) -> Tensor:
    """The spectrum of taps over n points: (L, D) → (D, F), (L,) → (F,)."""
    return torch.fft.rfft(w.mT.contiguous() if w.ndim == 2 else w, n)


def _channel_spectrum(x: Tensor, n: int) -> Tensor:
    """The spectrum of x over n points: (B, T, D) → (B, D, F)."""
    return torch.fft.rfft(x.mT.contiguous(), n)


def _channel_signal(Y: Tensor, n: int, T: int) -> Tensor:
    """The first T of the n points with spectrum Y: (B, D, F) → (B, T, D)."""
    return torch.fft.irfft(Y, n)[..., :T].mT.contiguous()


class _Mixed(torch.autograd.Function):
    """The lag sum for channels that are mixed by a matrix at each frequency; spectra are (F, B, D)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        n = points(x.shape[1] + len(w) - 1)
        X, W = spectrum(x, n), taps_spectrum(w, n)
        ctx.save_for_backward(x, w, W)
        ctx.n = n
        return signal(times(X, W), n, x.shape[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w, W = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives the spectrum must depend on w
            W = taps_spectrum(w, ctx.n)
        dY = spectrum(dy, ctx.n)
        dx = signal(times(dY, W.mH), ctx.n, x.shape[1]) if ctx.needs_input_grad[0] else None
        dw = taps(taps_spectrum_gradient(spectrum(x, ctx.n), dY, w), ctx.n, len(w)) if ctx.needs_input_grad[1] else None
        return dx, dw


def points(least: int) -> int:
    """The smallest length of at least `least` that transforms fast: 2^a, 3·2^a or 5·2^a."""
    sizes = (m << max(0, -(-least // m) - 1).bit_length() for m in (1, 3, 5))
    return min(sizes)


def spectrum(x: Tensor, n: int) -> Tensor:
    """The spectrum of x over n points: (B, T, D) → (F, B, D)."""
    return torch.fft.rfft(x.transpose(1, 2).contiguous(), n).permute(2, 0, 1).contiguous()


def signal(Y: Tensor, n: int, T: int) -> Tensor:
    """The first T of the n points with spectrum Y: (F, B, D) → (B, T, D)."""
    return torch.fft.irfft(Y.permute(1, 2, 0).contiguous(), n)[:, :, :T].transpose(1, 2).contiguous()


def taps_spectrum(w: Tensor, n: int) -> Tensor:
    """The spectrum of the taps over n points: (L, …) → (F, …)."""
    return torch.fft.rfft(w.movedim(0, -1).contiguous(), n).movedim(-1, 0).contiguous()


def taps(W: Tensor, n: int, L: int) -> Tensor:
    """The first L of the n points with spectrum W: (F, …) → (L, …)."""
    return torch.fft.irfft(W.movedim(0, -1).contiguous(), n)[..., :L].movedim(-1, 0).contiguous()


def times(X: Tensor, W: Tensor) -> Tensor:
    """The product of each frequency: (F, B, D) with a spectrum of taps → (F, B, D)."""
    if W.ndim == 1:
        return X * W[:, None, None]
    if W.ndim == 2:
        return X * W[:, None]
    if W.ndim == 3:
        return torch.bmm(X, W)
    grouped = X.unflatten(2, W.shape[1:3]).transpose(1, 2)  # (F, G, B, D/G)
    return (grouped @ W).transpose(1, 2).flatten(2)


def taps_spectrum_gradient(X: Tensor, dY: Tensor, w: Tensor) -> Tensor:
    """dW, Σ over rows of X^H dY at each frequency, in the shape for taps like w."""
    if w.ndim == 3:
        return torch.bmm(X.mH, dY)
    groups = w.shape[1:3]
    return X.unflatten(2, groups).transpose(1, 2).mH @ dY.unflatten(2, groups).transpose(1, 2)
