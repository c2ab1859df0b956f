"""The real part of the discrete Fourier transform over tokens and channels.

    y_sc = Re Σ_{t<n} Σ_{d<D} x_td e^{-2πi (st/n + cd/D)}          n tokens of a row; without normalization

A row of n < T tokens that is padded with zeros is transformed over its n tokens only.

Source: Lee-Thorp et al., FNet, arXiv:2105.03824, Eq. 1 and 3. Nothing differs.
"""

from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.fourier import fft, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def fourier(x: Stream, lengths: Lengths | None = None) -> Stream:
    """The real part of the transform of x (B, T, D); with `lengths` (B,) a row has that many tokens, then zeros.

    float16 and bfloat16 are transformed in float32. Outputs after a row's tokens are arbitrary. The rounding error is
    at most 8 eps · Σ|x| · log2(2 T D). Differentiable twice.
    """
    y: Tensor = OP[OP.choose(x)](x, lengths)
    return y


def by_size(x: Stream) -> str:
    """The name of the only fast backend."""
    return "fft"


def _whole(draw: Draw, B: int, T: int) -> Tensor:
    return fourier(draw(B, T, CHANNELS))


def _odd(draw: Draw, B: int, T: int) -> Tensor:
    return fourier(draw(B, T, CHANNELS - 1))


OP = Op(
    "fourier",
    {"reference": Backend(reference.fourier), "fft": Backend(fft.fourier)},
    rule=by_size,
    examples=(_whole, _odd),
    price=reference.price,
)
