"""FNet: attention replaced by the Fourier transform over tokens and channels, which has no parameters.

    y_sc = Re Σ_{t<n} Σ_{d<D} x_td e^{-2πi (st/n + cd/D)}          n: the tokens of the row
    out = y,  or y / √(n D) if `scaled`

Outputs are √(n D / 2) times as large as inputs unless they are `scaled`. FNet's layers have their norms after the sum
with the residual (`model.norm_place: after`), which undoes this factor; with norms before, set `scaled`.

There is no causal form: each frequency is a sum over all tokens. The nearest kind with a causal form is `me`, a sum
over earlier tokens with one weight per lag.

Source: Lee-Thorp et al., FNet, arXiv:2105.03824, section 3.1. `scaled` is ours. n counts kept tokens only; FNet in
transformers also transforms padding, which there changes every output.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.fixed.fourier import fourier
from seqloom.ops.fixed.fourier.reference import price

TRAITS = Traits(causal="never", streams=False, state="none")


@final
class FNet(BidirectionalMixer):
    """The transform of whole rows over `dim` channels."""

    traits = TRAITS

    def __init__(self, dim: int, scaled: bool) -> None:
        super().__init__()
        self.dim, self.scaled = dim, scaled
        self.register_buffer("like", torch.empty(0))  # holds the dtype and the device

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        y = fourier(x, lengths)
        if not self.scaled:
            return y
        n = x.shape[1] if lengths is None else lengths.clamp(min=1)[:, None, None].to(y.dtype)
        return y / (n * self.dim) ** 0.5

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        divided = Cost(div=span.rows * self.dim, path=("division",)) if self.scaled else None
        return price(span.rows, self.dim), divided


@register
class FNetConfig(MixerConfig):
    """Fourier transform of tokens and channels, without parameters."""

    kind: Literal["fnet"] = "fnet"
    scaled: bool = Field(False, description="whether the output is divided by √(tokens · dim), for pre-norm models")
    nearest: ClassVar = "me"
    traits: ClassVar = TRAITS
    examples: ClassVar = ({}, {"scaled": True})

    @override
    def make(self, layer: Layer) -> FNet:
        return FNet(layer.dim, self.scaled)
