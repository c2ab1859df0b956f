"""The Extractors: attention replaced by a sum over lags, adjusted by the current token.

    z = x W_in                          only HE
    e_i = Σ_{k=0}^{L-1} z_{i-k} W_ext[k]     SHE: matrices; HE, WE: vectors (∘); ME: scalars; L = context
    y = ((x W_adj) ∘ e) W_out           not ME; W_out is optional

    SHE  1 group, adjusted             HE  D groups, W_in, adjusted       HE's extraction  D groups, W_in
    WE   D groups, adjusted            ME  one tap shared by all channels

Taps beyond the context are zero, so that texts can have any length. Bidirectional, the sum reaches as far ahead: k =
-(L-1) … L-1, with 2L-1 taps.

`extractor` may divide e by the root of its number of terms, e_i ← e_i / √min(i, L) (`scale: rsqrt_position`), so that
e has the same variance at every position.

`extractor` may have fewer lags than the context (`lags`): then L = lags. With matrices and nothing else, in one layer
with a feed-forward network, it is a neural language model of fixed order, which sees only the last L embeddings.

`groups` between 1 and D is a spectrum from SHE to WE that the paper does not have: channels mix inside a group only.

Source: Chen, arXiv:2308.07661, Eq. 23-29 (SHE 23-25, HE 27, 28, 24, 25, WE 26, 24, 25, ME 29), HE's extraction section
5.4. W_ext[k] is the paper's W_{k+1}. In a Decoder all weights are initialized as N(0, 0.01²) as in the paper; a mixer
outside of a model uses 1/√fan-in instead, so that it preserves the variance of its input. The bidirectional form is
ours. `rsqrt_position` is inferred from one public program that cites the author's sequel, arXiv:2311.12678, and divides
by √i; the sequel's text was not read, and that sums of L terms are divided by √L is ours. Nothing else differs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import deviation
from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.lag_sum import centered, online, taps

TRAITS = Traits(causal="always", streams=True, state="window")


class Extraction(Mixer, ABC):
    """A lag sum with or without input projection, adjustment, output projection, over one side or both."""

    sides: ClassVar[Literal[1, 2]]
    """1 for causal sums, 2 for sums over earlier and later tokens"""

    def __init__(
        self, dim: int, context: int, groups: taps.Groups, in_proj: bool, adjust: bool, out_proj: bool
    ) -> None:
        super().__init__()
        self.dim, self.context = dim, context
        lags = context if self.sides == 1 else 2 * context - 1
        self.w_ext = nn.Parameter(torch.empty(lags, *taps.shape(dim, groups)))
        self.w_in, self.w_adj, self.w_out = (
            Linear(dim, dim, bias=False) if enabled else None for enabled in (in_proj, adjust, out_proj)
        )
        terms = lags * taps.products_per_tap(self.w_ext)
        nn.init.normal_(self.w_ext, std=terms**-0.5)  # variance-preserving, whatever the context

    @override
    def reset(self, std: float) -> None:
        deviation(std)
        nn.init.normal_(self.w_ext, std=std)
        super().reset(std)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        extracted = self._extraction(span, taps.products_per_tap(self.w_ext))
        adjusted = Cost(mul=span.rows * self.dim, path=("multiplication",)) if self.w_adj is not None else None
        return self.w_in, extracted, adjusted, self.w_out

    @abstractmethod
    def _extraction(self, span: Span, products: int) -> Cost:
        """The price of the sum over lags, with this many products per tap and output channel."""

    @override
    def plots(self, x: Stream) -> list[View]:
        return [taps.view(self.w_ext)]


@final
class Extractor(Extraction, CachingMixer):
    """A causal Extractor. State: see `ops.lag_sum.online`."""

    traits = TRAITS
    sides = 1
    scaled = False
    """whether a sum is divided by the square root of its number of terms"""

    @property
    @override
    def state_spec(self) -> StateSpec:
        return online.entries(self.context, self.dim)  # rings of the last L-1 inputs and of the next L-1 sums

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        z = x if self.w_in is None else self.w_in(x)
        e, entries = online.carry(z, self.w_ext, state, lengths, reuse)
        e = e / self._root(e.shape[1], state, e.dtype) if self.scaled else e
        y = e if self.w_adj is None else self.w_adj(x) * e
        out = y if self.w_out is None else self.w_out(y)
        return out, entries

    def _root(self, T: int, state: State | None, dtype: torch.dtype) -> Tensor:
        """√min(i, L) of the next T positions, (T, 1) or (B, T, 1)."""
        i = torch.arange(1, T + 1, device=self.device)
        position = i if state is None else state["length"][:, None] + i
        return position.clamp(max=self.context)[..., None].to(dtype).sqrt()

    @override
    def _extraction(self, span: Span, products: int) -> Cost:
        summed = taps.price(span, self.dim, self.context, products)
        divided = Cost(div=span.rows * self.dim, other=span.rows, path=("division",))
        return summed + divided if self.scaled else summed


@final
class BidirectionalExtractor(Extraction, BidirectionalMixer):
    """An Extractor that reads as far ahead as it reads back."""

    traits = Traits(causal="never", streams=False, state="none")
    sides = 2

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        z = x if self.w_in is None else self.w_in(x)
        e = centered.sum_centered(z, self.w_ext)
        y = e if self.w_adj is None else self.w_adj(x) * e
        return y if self.w_out is None else self.w_out(y)

    @override
    def _extraction(self, span: Span, products: int) -> Cost:
        return centered.price(span, self.dim, self.context, products)

    @override
    def plots(self, x: Stream) -> list[View]:
        return [centered.view(self.w_ext)]


OUT = Field(True, description="whether there is an output projection W_out (the paper calls it optional)")


class _ExtractorConfig(MixerConfig):
    """A member of the family: `fixed` are settings of the member, fields those that a user can choose.

    `groups` is dim unless one of them sets it.
    """

    traits: ClassVar = replace(TRAITS, causal="either")
    fixed: ClassVar[dict[str, Any]] = {}

    @override
    def make(self, layer: Layer) -> Extraction:
        if layer.context is None:
            raise ValueError(f"{self.kind} needs a context: the number of lags that it has weights for")
        if layer.context < 1:
            raise ValueError(f"context must be at least 1, not {layer.context}")
        defaults = {"groups": layer.dim, "in_proj": False, "adjust": True}
        form = Extractor if layer.causal else BidirectionalExtractor
        return form(
            layer.dim, layer.context, **{**defaults, **self.fixed, **self.model_dump(exclude={"kind", "scale", "lags"})}
        )


@register
class SHE(_ExtractorConfig):
    """The super high-performance Extractor: a matrix for each lag.

        e_i = Σ_{k=0}^{L-1} x_{i-k} W_ext[k]
        y = ((x W_adj) ∘ e) W_out

    L is the context; W_out is optional.
    """

    kind: Literal["she"] = "she"
    groups: int = Field(1, ge=1, description="groups of channels that mix: 1 is the paper's SHE, dim is WE")
    out_proj: bool = OUT
    examples: ClassVar = ({}, {"groups": 2}, {"out_proj": False})


@register
class HE(_ExtractorConfig):
    """The higher-performance Extractor: an input projection, then a vector for each lag.

        z = x W_in
        e_i = Σ_{k=0}^{L-1} z_{i-k} ∘ W_ext[k]
        y = ((x W_adj) ∘ e) W_out

    L is the context; W_out is optional.
    """

    kind: Literal["he"] = "he"
    out_proj: bool = OUT
    fixed: ClassVar = {"in_proj": True}


@register
class WE(_ExtractorConfig):
    """The worthwhile Extractor: a vector for each lag.

        e_i = Σ_{k=0}^{L-1} x_{i-k} ∘ W_ext[k]
        y = ((x W_adj) ∘ e) W_out

    L is the context; W_out is optional.
    """

    kind: Literal["we"] = "we"
    out_proj: bool = OUT


@register
class ME(_ExtractorConfig):
    """The minimalist Extractor: one number for each lag, and nothing else.

        y_i = Σ_{k=0}^{L-1} W_ext[k] x_{i-k}

    L is the context.
    """

    kind: Literal["me"] = "me"
    fixed: ClassVar = {"groups": "shared", "adjust": False, "out_proj": False}


@register
class HEExtraction(_ExtractorConfig):
    """The extraction part of HE alone, without adjustment and output projection.

        z = x W_in
        y_i = Σ_{k=0}^{L-1} z_{i-k} ∘ W_ext[k]

    L is the context.
    """

    kind: Literal["he_extraction"] = "he_extraction"
    fixed: ClassVar = {"in_proj": True, "adjust": False, "out_proj": False}


@register
class AnyExtractor(_ExtractorConfig):
    """Any member of the family: each factor of the equation is a setting.

        z = x W_in
        e_i = Σ_{k=0}^{L-1} z_{i-k} W_ext[k]
        y = ((x W_adj) ∘ e) W_out

    L is `lags`, or else the context.
    """

    kind: Literal["extractor"] = "extractor"
    groups: int | Literal["shared"] = Field(
        1, description="groups of channels that mix, or 'shared' for one tap per lag"
    )
    in_proj: bool = Field(False, description="whether there is an input projection W_in")
    adjust: bool = Field(True, description="whether the extraction is multiplied by W_adj of the current token")
    out_proj: bool = OUT
    scale: Literal["none", "rsqrt_position"] = Field(
        "none",
        description="rsqrt_position: divide each sum by the square root of its number of terms; causal only; "
        "inferred, not in the paper",
    )
    lags: int | None = Field(None, ge=1, description="number of lags, the current token included; unset: the context")
    later: ClassVar = ("scale", "lags")
    examples: ClassVar = (
        {"groups": 4, "in_proj": True},
        {"groups": "shared", "in_proj": True},
        {"groups": 2, "scale": "rsqrt_position"},
        {"adjust": False, "out_proj": False, "lags": 3},
    )

    @property
    @override
    def has_bidirectional(self) -> bool:
        return self.scale == "none"

    @override
    def make(self, layer: Layer) -> Extraction:
        lags = layer.context if self.lags is None else self.lags
        mixer = super().make(replace(layer, context=lags))
        if isinstance(mixer, Extractor):
            mixer.scaled = self.scale == "rsqrt_position"
        return mixer
