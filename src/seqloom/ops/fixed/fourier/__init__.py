"""The real part of the discrete Fourier transform over tokens and channels.

    y_sc = Re Σ_{t<n} Σ_{d<D} x_td e^{-2πi (st/n + cd/D)}          n tokens of a row; without normalization

A row of n < T tokens that is padded with zeros is transformed over its n tokens only.

Source: Lee-Thorp et al., FNet, arXiv:2105.03824, Eq. 1 and 3. Nothing differs.
"""

import torch
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.fixed.fourier import reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def fourier(x: Stream, lengths: Lengths | None = None) -> Stream:
    """The real part of the transform of x (B, T, D); with `lengths` (B,) a row has that many tokens, then zeros.

    float16 and bfloat16 are transformed in float32. Outputs after a row's tokens are arbitrary. The rounding error is
    at most 8 eps · Σ|x| · log2(2 T D). Differentiable twice.
    """
    y: Tensor = OP[OP.choose(x)](x, lengths)
    return y


def choose_backend(x: Stream) -> str:
    """The name of the only fast backend."""
    return "fft"


def fft(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The backend `fft`: fast Fourier transforms of one axis after the other.

    x is real, so half of the channels determine all: y_{s,D-c} = y_{-s,c}, with -s modulo the row's number of tokens.
    """
    wide_dtype = torch.promote_types(x.dtype, torch.float32)
    z = torch.fft.rfft(x.to(wide_dtype), dim=2)  # (B, T, D/2 + 1)
    first_half = (torch.fft.fft(z, dim=1) if lengths is None else _chirp_transform(z, lengths)).real
    return torch.cat([first_half, _mirror_channels(first_half, x.shape[2], lengths)], 2).to(x.dtype)


def _mirror_channels(first_half: Tensor, D: int, lengths: Tensor | None) -> Tensor:
    """The channels from D/2 + 1 on: y_{s,D-c} = y_{-s,c}, from the channels (B, T, D/2 + 1) before them."""
    reversed_channels = first_half[:, :, 1 : D - first_half.shape[2] + 1].flip(2)
    if lengths is None:
        return reversed_channels.flip(1).roll(1, 1)
    s = torch.arange(first_half.shape[1], device=first_half.device)
    minus_s = -s % lengths.clamp(min=1)[:, None]
    return reversed_channels.gather(1, minus_s[:, :, None].expand_as(reversed_channels))


def _chirp_transform(z: Tensor, lengths: Tensor) -> Tensor:
    """The transform of z (B, T, C) over time, of each row over its first `lengths` (B,) tokens; the rest of z is 0.

    Rows of different lengths are transformed together by Bluestein's chirp: st = (s² + t² - (s-t)²)/2, so that

        X_s = w̄_s Σ_t (x_t w̄_t) w_{s-t},   w_k = e^{πi k²/n}

    is a convolution with w, by transforms of one size for all rows. k² is taken modulo 2n in integers, so w is exact.
    Source: Bluestein, IEEE Transactions on Audio and Electroacoustics 18 (4), 1970. Nothing differs.
    """
    T = z.shape[1]
    k = torch.arange(T, device=z.device)
    n = lengths.clamp(min=1)[:, None]
    angle = (k * k % (2 * n)).to(z.real.dtype) / n * torch.pi
    w = torch.polar(torch.ones_like(angle), angle)[:, :, None]  # (B, T, 1)
    size = 1 << (2 * T - 1).bit_length()
    symmetric_w = torch.cat([w, w.new_zeros(len(w), size - 2 * T + 1, 1), w[:, 1:].flip(1)], 1)  # w_k at k and at -k
    spectrum = torch.fft.fft(z * w.conj(), n=size, dim=1) * torch.fft.fft(symmetric_w, dim=1)
    return torch.fft.ifft(spectrum, dim=1)[:, :T] * w.conj()


def _whole(draw: Draw, B: int, T: int) -> Tensor:
    return fourier(draw(B, T, CHANNELS))


def _odd(draw: Draw, B: int, T: int) -> Tensor:
    return fourier(draw(B, T, CHANNELS - 1))


OP = Op(
    "fourier",
    {"reference": Backend(reference.fourier), "fft": Backend(fft, plain=True)},
    rule=choose_backend,
    examples=(_whole, _odd),
    price=reference.price,
)
