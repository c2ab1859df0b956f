"""Compressive Transformer: the memory of Transformer-XL, and one compressed input for every c inputs that leave it.

    q = x W_q,   [k v] = [z; memory; x] W_kv           memory: the last M inputs of this layer; z: S compressed ones
    s_ij = ((q_i + u) · k_j + (q_i + w) · W_R r_{d(i,j)}) / √K       per head; see `seqloom.positions.transformer_xl`
    y_i = concat_h(Σ_j softmax_j(s_ij) v_j) W_out                    over the z and the tokens that i attends to

Which block of c inputs is compressed when, and the distances d, are in `seqloom.ops.past.compressed_past`: N layers
reach (M + c S) N tokens back. How a block is compressed, and the loss for it, are in `seqloom.mixers.compression`. Like
memory, z is projected again for each piece that is read. Code: M is `memory`, S `compressed`, c `rate`.

Source: Rae et al., arXiv:1911.05507, section 3. There blocks are compressed when a segment ends; here when they leave
the memory of a token, so that the result does not depend on how a text is cut. The loss of the task also trains C,
through the blocks that are compressed within a step. `most_used` takes one token per block, by the attention among
tokens; the paper's takes the most used ones of a segment, by attention to slots as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import pad
from typing_extensions import override

from seqloom.core.cost import Cost, Span, linear
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.rest import in_training
from seqloom.core.shapes import Keep, Lengths, Stream
from seqloom.core.state import Entries, State, bound_state, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.compression import By, Compression, Loss
from seqloom.ops.attention import attend, weights
from seqloom.ops.attention.reference import price
from seqloom.ops.attention.usage import usage
from seqloom.ops.attention.usage.reference import price as usage_price
from seqloom.ops.past import ring
from seqloom.ops.past.compressed_past import SLOT, CompressedPast
from seqloom.ops.past.pack import pack, within
from seqloom.ops.past.past_inputs import PastInputs, read_on, whole
from seqloom.positions.transformer_xl import TransformerXL

TRAITS = Traits(causal="always", streams=True, state="window")


@final
@dataclass(frozen=True)
class _Attended:
    """The arguments of attention, and the values of the new state that were computed for them."""

    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any]
    """further arguments of `attend`"""
    slots: int
    """the number of keys that are of slots; they come before those of tokens"""
    inputs: PastInputs
    compressed: Tensor
    """(B, P, D), the blocks that x completes, compressed"""
    received: Tensor | None
    """(B, N), the attention that each of `inputs` has received, with `most_used`"""


@final
class CompressiveAttention(PackedMixer):
    """Attention with a memory and a compressed memory, over `dim` channels. State: M inputs, and S compressed ones."""

    traits = TRAITS

    def __init__(self, config: "CompressiveAttentionConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads = D, H
        self.past = CompressedPast(config.memory, config.compressed, config.rate)
        self.segment = layer.context
        self.w_q, self.w_kv = Linear(D, D, bias=False), Linear(D, 2 * D, bias=False)
        self.position = TransformerXL(D // H, H, config.base)
        self.compression = Compression(D, config.rate, config.compression, config.loss, config.dilation)
        self.w_out = Linear(D, D, bias=False)

    @property
    @override
    def state_spec(self) -> StateSpec:
        entries = {"x": StateEntry((self.past.memory, self.dim)), "slots": StateEntry((self.past.slots, self.dim))}
        if self._by_use:
            entries["received"] = StateEntry((self.past.memory,), "wide")
        return entries

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        attended = self._gather_compressed(x, state, lengths)
        heads = attend(attended.q, attended.k, attended.v, **attended.options)
        y: Tensor = self.w_out(heads.transpose(1, 2).flatten(2))
        if torch.is_grad_enabled():
            y = y + self.compression.zero_loss()
        if state is None:
            return y, {}
        inputs, length = attended.inputs, attended.inputs.length.tokens
        end = length + (x.shape[1] if lengths is None else lengths)
        new_blocks = self.past.blocks_at(end) - inputs.first  # (B,)
        entries = {"x": ring.write(state["x"], length, x, lengths), "slots": state["slots"].clone()}
        if attended.compressed.shape[1]:
            entries["slots"] = ring.write(state["slots"], inputs.first, attended.compressed, new_blocks)
        if attended.received is not None:
            old, new = attended.received.split([inputs.earlier, x.shape[1]], 1)
            received = torch.cat([old, state["received"][:, inputs.earlier :]], 1)
            entries["received"] = ring.write(received[..., None], length, new[..., None], lengths)[..., 0]
        return y, entries

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        return self(x, keep), self._extras(x, None, keep)

    @override
    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        return *self.extend(x, state, keep), self._extras(x, bound_state(state), keep)

    @property
    @override
    def clipped_apart(self) -> Iterable[nn.Parameter]:
        return () if self.compression.loss == "none" else self.compression.parameters()

    @override
    def plots(self, x: Stream) -> list[View]:
        attended = self._gather_compressed(x[:1], None, None)
        a = weights(attended.q, attended.k, **attended.options)[0].mean(0)  # (T, N)
        now = attended.inputs.now[0, :, None]
        segment_start = now - now % self.segment if self.segment else torch.zeros_like(now)
        tokens, in_segment = a[:, attended.slots :], attended.inputs.then[0] >= segment_start
        shares = {
            "compressed": a[:, : attended.slots].sum(1),
            "memory": torch.where(in_segment, 0.0, tokens).sum(1),
            "sequence": torch.where(in_segment, tokens, 0.0).sum(1),
        }
        meaning = (
            "how much of a query's attention goes there, the mean of the heads; a sequence is a segment of training"
        )
        return [View(f"attention to the {name}", meaning, ("token",), share) for name, share in shares.items()]

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        nn.init.zeros_(self.position.u)
        nn.init.zeros_(self.position.v)

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [self.w_q, self.w_kv, self.w_out]  # positions and compression are priced in `price_terms`

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        """Each input and each compressed input is projected once, as in a whole text; see `transformer_xl`."""
        D, H, terms, blocks = self.dim, self.heads, self.past.terms(span), self.past.count_compressed(span)
        usage = Cost()
        if self._by_use:
            token_terms = self.past.token_terms(span)
            positions = Cost(mul=token_terms * D, add=token_terms * D + 2 * span.rows * D)
            usage = (usage_price(span.rows, token_terms, D, H) + positions).parallel()
        compressed = (self.compression.price(blocks) + linear(blocks, D, 2 * D)).parallel()
        position = self.position.price(span, terms, self.past.distances(span))
        return self.w_kv, usage, compressed, position, price(span.rows, terms, D, H), self.w_out

    def _gather_compressed(self, x: Stream, state: State | None, lengths: Lengths | None) -> _Attended:
        """The arguments of attention for x, with all compressed inputs that any query of x reads."""
        inputs, T, even = self._inputs(x, state), x.shape[1], lengths is None
        relation = self.position(inputs.farthest(), 0, False)
        q = self._heads(self.w_q(x), 1)[0]
        q = q + relation.query.to(q.dtype)
        k, v = self._heads(self.w_kv(inputs.x), 2)

        def change(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
            assert relation.score_change is not None
            distance = self.past.distance(i, j)
            return relation.score_change(z, q, distance, torch.zeros_like(distance))  # i - j is the distance

        received = self._received_attention(q, k, inputs, state, lengths, change) if self._by_use else None
        compressed = self.compression(inputs, inputs.new(T if state is not None else T - 1, even), received)
        readable = inputs.new(T - 1, even)  # a block that the last token of x completes is read by later tokens only
        visible = compressed[:, :readable]
        slots = torch.cat([inputs.slots, visible], 1)
        if slots.shape[1]:
            keys, values = self._heads(self.w_kv(slots), 2)
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        new_slots = inputs.first[:, None] + torch.arange(visible.shape[1], device=x.device)
        key_time = torch.cat([inputs.slot_then, SLOT + new_slots, inputs.then], 1)
        options = {"pattern": self.past, "query_time": inputs.now, "key_time": key_time, "score_change": change}
        return _Attended(q, k, v, options, slots.shape[1], inputs, compressed, received)

    def _inputs(self, x: Stream, state: State | None) -> PastInputs:
        return whole(self.past, x) if state is None else read_on(self.past, x, state, length_of(state))

    @torch.no_grad()
    def _received_attention(
        self, q: Tensor, k: Tensor, inputs: PastInputs, state: State | None, lengths: Lengths | None, change: Any
    ) -> Tensor:
        """The attention among tokens that each input has received up to the end of the piece, (B, N)."""
        dtype, now = torch.promote_types(q.dtype, torch.float32), inputs.now
        if lengths is not None:
            now = torch.where(within(lengths, q.shape[2]), now, -1)
        new = usage(q.to(dtype), k.to(dtype), now, inputs.then, pattern=self.past.tokens, score_change=change)
        if state is None:
            return new
        return new + pad(state["received"][:, : inputs.earlier].to(dtype), (0, q.shape[2]))

    def _extras(self, x: Stream, state: State | None, keep: Keep | None) -> Extras:
        """The loss of the blocks that become old enough to compress in this piece."""
        if not in_training(self) or self.compression.loss == "none":
            return Extras()
        rows, packing = (x, None) if keep is None else pack(x, keep)
        detached = None
        if state is not None:
            detached = State({name: entry.detach() for name, entry in state.items()}, state.bound, state.even)
        inputs = self._inputs(rows.detach(), detached)
        attention = self.w_q.weight.detach(), self.w_kv.weight.detach(), self.heads
        return self.compression.extras(inputs, None if packing is None else packing.lengths, attention)

    def _heads(self, projected: Tensor, count: int) -> Tensor:
        """The heads (count, B, H, N, K) of `count` projections (B, N, count · D)."""
        return projected.unflatten(-1, (count, self.heads, -1)).permute(2, 0, 3, 1, 4)

    @property
    def _by_use(self) -> bool:
        """Whether the choice of a block's token needs the attention that tokens have received."""
        return self.compression.by == "most_used"


@register
class CompressiveAttentionConfig(MixerConfig):
    """Compressive Transformer's attention: a memory of inputs, and compressed ones of those before."""

    kind: Literal["compressive"] = "compressive"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    memory: int = Field(
        128,
        ge=2,
        le=2**20,
        description="approximate number of previous tokens that a token attends to without compression",
    )
    compressed: int = Field(
        128, ge=1, le=2**20, description="compressed inputs before those, each made of `rate` tokens"
    )
    rate: int = Field(4, ge=2, le=2**20, description="tokens that are compressed into one; divides memory")
    compression: By = Field(
        "convolution",
        description="how a block is compressed: a learned convolution, the maximum or mean per channel, or its most "
        "attended token",
    )
    dilation: int = Field(1, ge=1, le=2**20, description="distance between the tokens that a convolution reads")
    loss: Loss = Field(
        "attention", description="auxiliary loss of the convolution: reconstruction of attention or of inputs, or none"
    )
    base: float = Field(
        10000.0, gt=1, description="approximate ratio of the longest wavelength of the positions to the shortest"
    )
    traits: ClassVar = TRAITS
    long_views: ClassVar = True
    examples: ClassVar = (
        {"heads": 2, "memory": 2, "compressed": 2, "rate": 2},
        {"heads": 4, "memory": 6, "compressed": 1, "rate": 3, "dilation": 3, "loss": "autoencoding"},
        {"heads": 1, "memory": 2, "compressed": 3, "rate": 2, "compression": "max", "loss": "none"},
        {"heads": 2, "memory": 4, "compressed": 2, "rate": 2, "compression": "mean", "loss": "none"},
        {"heads": 2, "memory": 3, "compressed": 2, "rate": 3, "compression": "most_used", "loss": "none"},
    )

    @model_validator(mode="after")
    def _fits(self) -> "CompressiveAttentionConfig":
        self.require_memory()
        if self.compression != "convolution" and self.dilation != 1:
            raise ValueError(f"dilation is of a convolution, not of {self.compression}: leave it out")
        if self.compression != "convolution" and self.loss != "none":
            raise ValueError(f"{self.compression} learns nothing: set loss: none, or compression: convolution")
        return self

    def require_memory(self) -> None:
        """Raises ValueError for a memory that is not of whole blocks, or that a convolution does not fit into."""
        if self.memory % self.rate:
            lower = self.memory // self.rate * self.rate
            sizes = f"{lower} or {lower + self.rate}" if lower else f"{self.rate}"
            raise ValueError(f"a memory of {self.memory} is not of whole blocks of rate {self.rate}: choose {sizes}")
        span = self.dilation * (self.rate - 1)
        if self.memory < span:
            raise ValueError(
                f"a dilation of {self.dilation} at rate {self.rate} reads over {span} tokens, more than the memory of "
                f"{self.memory}: choose a smaller one"
            )

    @property
    @override
    def tokens_back(self) -> int:
        return self.memory + self.rate * self.compressed

    @property
    @override
    def has_window(self) -> bool:
        return True

    @override
    def with_window(self, window: int) -> "CompressiveAttentionConfig":
        """These settings with a memory of `window - 1` tokens, since a window counts the token itself.

        ValueError for a memory that is not a multiple of `rate`.
        """
        if window <= self.rate:
            raise ValueError(
                f"a memory of {window - 1} leaves compressive no block of rate {self.rate}: choose {self.rate} or more"
            )
        changed = self.model_copy(update={"memory": window - 1})
        changed.require_memory()
        return changed

    @override
    def make(self, layer: Layer) -> CompressiveAttention:
        return CompressiveAttention(self, layer)
