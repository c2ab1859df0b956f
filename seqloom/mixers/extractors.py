"""The Extractors: attention replaced by a sum over lags, adjusted by the current token.

    z = x W_in                          only HE
    e_i = Σ_{k=0}^{L-1} z_{i-k} W_ext[k]     SHE: matrices; HE, WE: vectors (∘); ME: scalars; L = context
    y = ((x W_adj) ∘ e) W_out           not ME; W_out is optional

    SHE  1 group, adjusted             HE  D groups, W_in, adjusted       HE's extraction  D groups, W_in
    WE   D groups, adjusted            ME  one tap shared by all channels

`groups` between 1 and D is a spectrum from SHE to WE that the paper does not have: channels mix inside a group only.
Taps beyond the context are zero, so that any length is read.

Source: Chen, arXiv:2308.07661, Eq. 23-29 (SHE 23-25, HE 27, 28, 24, 25, WE 26, 24, 25, ME 29), HE's extraction section
5.4. W_ext[k] is the paper's W_{k+1}. In a Decoder all weights begin at N(0, 0.01²) as in the paper; a mixer that stands
alone begins at 1/√fan-in instead, so that it is as loud as its input. Nothing else differs.
"""

from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.core.cost import Cost, Per, linear, lookback
from seqloom.core.mixer import MixerConfig, Traits, register
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import State, unread
from seqloom.core.view import View
from seqloom.mixers.packed import PackedMixer
from seqloom.ops import ring
from seqloom.ops.lag_sum import lags

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class Extractor(PackedMixer):
    """A lag sum with or without input projection, adjustment, output projection. State: the last L-1 inputs of it."""

    traits = TRAITS

    def __init__(
        self, dim: int, context: int, groups: int | Literal["shared"], in_proj: bool, adjust: bool, out_proj: bool
    ) -> None:
        super().__init__()
        if groups != "shared" and (groups < 1 or dim % groups):
            raise ValueError(f"dim {dim} is not divisible by groups {groups}: choose groups that divide dim")
        self.dim, self.context, self.groups = dim, context, groups
        self.w_ext = nn.Parameter(torch.empty(context, *self._tap_shape()))
        self.w_in, self.w_adj, self.w_out = (
            nn.Linear(dim, dim, bias=False) if wanted else None for wanted in (in_proj, adjust, out_proj)
        )
        nn.init.normal_(self.w_ext, std=(context * self._inside) ** -0.5)  # as loud as its input, whatever the context

    def reset(self, std: float) -> None:
        """See `Mixer.reset`; the taps are drawn like any matrix of the paper."""
        nn.init.normal_(self.w_ext, std=std)
        super().reset(std)

    def mix(self, x: Stream) -> Stream:
        """See `PackedMixer.mix`."""
        return self._adjusted(x, lags(self._in(x), self.w_ext))

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        """See `Mixer.start`: a ring of the last L-1 inputs (B, L-1, D), whatever the `capacity`."""
        past = torch.zeros(batch, self.context - 1, self.dim, dtype=self.dtype, device=self.device)
        return {"past": past, **unread(batch, self.device)}

    def carry(self, x: Stream, state: State, lengths: Lengths) -> tuple[Stream, State]:
        """See `PackedMixer.carry`."""
        z, seen = self._in(x), state["seen"]
        before = ring.latest(state["past"], seen, self._reach(seen)).to(z.dtype)
        y = self._adjusted(x, lags(z, self.w_ext, before))
        return y, {"past": ring.write(state["past"], seen, z, lengths), "seen": seen + lengths}

    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, State]:
        """See `PackedMixer.advance`."""
        z, seen, past = self._in(x), state["seen"], state["past"]
        before = ring.latest(past, seen, self._reach(seen)).to(z.dtype)
        y = self._adjusted(x, self._newest(torch.cat([before, z[:, None]], 1)))
        if reuse:
            return y, {"past": ring.write_(past, seen, z.detach()), "seen": seen + 1}
        return y, {"past": ring.write(past, seen, z[:, None], torch.ones_like(seen)), "seen": seen + 1}

    def cost(self, T: int, per: Per = "sequence") -> Cost:
        """See `Mixer.cost`. Tables 3-6 of the paper; with G groups a tap costs D²/G products."""
        D, L = self.dim, self.context
        rows, terms = lookback(T, L, per)
        price = Cost(
            mul=terms * D * self._inside,
            add=terms * D * (self._inside - 1) + (terms - rows) * D,
            params=self.w_ext.numel(),
            state=(L - 1) * D,
            path=("multiplication", "cumulation"),
        )
        if self.w_in is not None:
            price = linear(rows, D, D) + price
        if self.w_adj is not None:
            adjusting = linear(rows, D, D)  # beside the extraction, so its path is not on the critical one
            price += Cost(adjusting.mul + rows * D, adjusting.add, params=adjusting.params, path=("multiplication",))
        return price + linear(rows, D, D) if self.w_out is not None else price

    def views(self, x: Stream) -> list[View]:
        """See `Mixer.views`: the taps; of matrices, the root mean square over their input channels."""
        w = self.w_ext
        if w.ndim == 1:
            return [View("taps", "the weight of the input at each lag, shared by all channels", ("lag",), w)]
        if w.ndim == 2:
            return [View("taps", "the weight of a channel's own input at each lag", ("lag", "channel"), w)]
        loud = w.square().mean(-2).sqrt().flatten(1)
        meaning = "how strongly an output channel reads its group's inputs at each lag, root mean square"
        return [View("taps", meaning, ("lag", "channel"), loud)]

    def _tap_shape(self) -> tuple[int, ...]:
        if self.groups == "shared":
            return ()
        if self._inside == 1:
            return (self.dim,)
        return (self.dim, self.dim) if self.groups == 1 else (self.groups, self._inside, self._inside)

    @property
    def _inside(self) -> int:
        """Products of one tap that an output channel sums up."""
        return 1 if self.groups == "shared" else self.dim // self.groups

    def _in(self, x: Tensor) -> Tensor:
        z: Tensor = self.w_in(x) if self.w_in is not None else x
        return z

    def _adjusted(self, x: Tensor, extracted: Tensor) -> Tensor:
        y = self.w_adj(x) * extracted if self.w_adj is not None else extracted
        return self.w_out(y) if self.w_out is not None else y

    def _newest(self, z: Tensor) -> Tensor:
        """The lag sum at the last place of z (B, N, D) alone: one product with all taps."""
        w, newest_first = self.w_ext[: z.shape[1]].to(z.dtype), z.flip(1)
        if w.ndim == 1:
            return torch.einsum("bkd,k->bd", newest_first, w)
        if w.ndim == 2:
            return torch.einsum("bkd,kd->bd", newest_first, w)
        if w.ndim == 3:
            return newest_first.flatten(1) @ w.flatten(0, 1)
        return torch.einsum("bkgd,kgde->bge", newest_first.unflatten(2, w.shape[1:3]), w).flatten(1)

    def _reach(self, seen: Tensor) -> int:
        if torch.compiler.is_compiling():
            return self.context - 1  # how many were read is not known while a graph is captured
        return min(self.context - 1, int(seen.max()))


class _ExtractorConfig(MixerConfig):
    traits: ClassVar = TRAITS

    def _build(self, dim: int, context: int | None, **factors: bool | int | str) -> Extractor:
        if context is None:
            raise ValueError(f"{self.kind} needs a context: the number of lags that it has weights for")
        if context < 1:
            raise ValueError(f"context must be at least 1, not {context}")
        return Extractor(dim, context, **factors)  # type: ignore[arg-type]  # the fields of the family below


OUT = Field(True, description="whether the output projection W_out follows (the paper calls it optional)")


@register
class SHE(_ExtractorConfig):
    """The super high-performance Extractor: a matrix for each lag."""

    kind: Literal["she"] = "she"
    groups: int = Field(1, ge=1, description="groups of channels that mix: 1 is the paper's SHE, dim is WE")
    out_proj: bool = OUT
    examples: ClassVar = ({}, {"groups": 2}, {"out_proj": False})

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(dim, context, groups=self.groups, in_proj=False, adjust=True, out_proj=self.out_proj)


@register
class HE(_ExtractorConfig):
    """The higher-performance Extractor: an input projection, then a vector for each lag."""

    kind: Literal["he"] = "he"
    out_proj: bool = OUT

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(dim, context, groups=dim, in_proj=True, adjust=True, out_proj=self.out_proj)


@register
class WE(_ExtractorConfig):
    """The worthwhile Extractor: a vector for each lag."""

    kind: Literal["we"] = "we"
    out_proj: bool = OUT

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(dim, context, groups=dim, in_proj=False, adjust=True, out_proj=self.out_proj)


@register
class ME(_ExtractorConfig):
    """The minimalist Extractor: one number for each lag, and nothing else."""

    kind: Literal["me"] = "me"

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(dim, context, groups="shared", in_proj=False, adjust=False, out_proj=False)


@register
class HEExtraction(_ExtractorConfig):
    """The extraction part of HE alone, without adjustment and output projection."""

    kind: Literal["he_extraction"] = "he_extraction"

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(dim, context, groups=dim, in_proj=True, adjust=False, out_proj=False)


@register
class AnyExtractor(_ExtractorConfig):
    """Any member of the family: each factor of the equation is a setting."""

    kind: Literal["extractor"] = "extractor"
    groups: int | Literal["shared"] = Field(1, description="groups of channels that mix, or 'shared' for one tap a lag")
    in_proj: bool = Field(False, description="whether the input projection W_in comes first")
    adjust: bool = Field(True, description="whether the current token adjusts the extraction, through W_adj")
    out_proj: bool = OUT
    examples: ClassVar = ({"groups": 4, "in_proj": True}, {"groups": "shared", "in_proj": True})

    def build(self, dim: int, context: int | None) -> Extractor:
        """See `MixerConfig.build`."""
        return self._build(
            dim, context, groups=self.groups, in_proj=self.in_proj, adjust=self.adjust, out_proj=self.out_proj
        )
