"""The causal form of `sinkhorn` that continues from a state: a softmax of scores weights the blocks before each block.

The state holds the sorted block of the block that is being read, so that a token in that block attends to at most 2b
slots: b of the sorted block and b of its own. The equation is in `attention.sinkhorn`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View, of_heads
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bucketed import PAST
from seqloom.mixers.sorter import Sorter, before, past_blocks, starts
from seqloom.ops.bucketing import sinkhorn, sorted_blocks
from seqloom.ops.bucketing.sorted_blocks.blocks import attend_shared_slots, mix_blocks, read
from seqloom.ops.past.cache import with_past
from seqloom.ops.past.limit import positions


@final
class PastSinkhorn(Sorter, PackedMixer):
    """The form whose weights depend on the past alone. State: keys and values, the sum of keys, the sorted block."""

    def __init__(self, layer: Layer, heads: int, block: int, temperature: float, noise: bool) -> None:
        super().__init__(layer, heads, block, temperature, noise)
        self.traits = replace(PAST, longest=self.context)

    @property
    @override
    def state_spec(self) -> StateSpec:
        cache = StateEntry((0, self.dim), grows=True, max_slots=self.context)
        sorted_block = StateEntry((self.heads, self.block, self.K))
        total = StateEntry((self.heads, self.K), "wide")
        return {"k": cache, "v": cache, "sum": total, "sorted_k": sorted_block, "sorted_v": sorted_block}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        """Raises ValueError beyond the context."""
        time = positions("sinkhorn", self.context, x, state, lengths)
        q, k, v = self.project(x)
        if state is None:
            return self.out(self._whole(q, k, v)), {}
        return self._read_on(x, time, state, lengths)

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        length, time = length_of(state), positions("sinkhorn", self.context, x[:, None], state)
        if length.even and length.bound is not None:
            y, entries = self._token(x[:, None], length.bound, state, reuse)
        else:
            y, entries = self._read_on(x[:, None], time, state, None, reuse)
        for name in ("sum", "sorted_k", "sorted_v"):
            new = entries[name]
            if reuse:
                entries[name] = state[name].copy_(new.detach())
            elif new is state[name]:
                entries[name] = new.clone()  # a new state shares no tensor with the old one
        return y[:, 0], entries

    @override
    def plots(self, x: Stream) -> list[View]:
        q, k, _ = self.project(x[:1])
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(self._whole(q, k, values)[0])

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows = self.heads * starts(span, self.block)
        entries = self.heads * past_blocks(span, self.block)
        tokens = range(span.T) if span.per == "sequence" else range(span.T - 1, span.T)
        attention = sorted_blocks.price(tokens, span.T, self.block, self.dim, self.heads)
        return *self.pooling(span), sinkhorn.price(entries, rows, 0, 0), attention, self.w_out

    def _whole(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The outputs (B, H, T, V) of the heads over whole rows."""
        z = self.past_scores(k)
        weights = sinkhorn.balance_matrix(z, before(z), 1, columns=False)
        return sorted_blocks.attend(q, k, v, weights, self.block)

    def _read_on(
        self, x: Stream, time: Tensor, state: State, lengths: Lengths | None, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """The outputs and entries for a piece x (B, T, D) at positions `time` (B, T).

        Its tokens are in the block that `length` tokens before it left incomplete, and in n = ⌈T/b⌉ blocks after that.
        The sorted block of the former is in the state; those of the n others are computed here.
        """
        q, k, v = self.project(x)
        b, T = self.block, x.shape[1]
        (past_k, past_v), entries = self._extend_caches(k, v, state, lengths, reuse)
        length, total = state["length"], state["sum"][:, :, None] + k.cumsum(2)
        first = -(-length // b)  # the first block that begins in the piece
        number = first[:, None] + torch.arange(-1, -(-T // b), device=x.device)  # (B, n + 1), the incomplete one first

        # the sorted blocks: mean keys up to the first token of each new block, and mixtures of the blocks before it
        starts_of_blocks = number[:, 1:] * b
        totals = _at(total, (starts_of_blocks - length[:, None]).clamp(max=T - 1))
        pooled = totals / (starts_of_blocks + 1)[:, None, :, None]
        count = -(-past_k.shape[2] // b)
        past = torch.arange(count, device=x.device) < number[:, None, 1:, None]
        weights = sinkhorn.balance_matrix(self.scores(pooled.to(x.dtype))[..., :count], past, 1, columns=False)
        all_blocks = (pad(y, (0, 0, 0, count * b - y.shape[2])).unflatten(2, (count, b)) for y in (past_k, past_v))
        sorted_k, sorted_v = (
            torch.cat([state[name][:, :, None].to(y.dtype), mix_blocks(weights, y)], 2)
            for name, y in zip(("sorted_k", "sorted_v"), all_blocks, strict=True)
        )

        # attention of each block to its sorted block and to itself; slots outside of the piece are computed and dropped
        times = (number[:, :, None] * b + torch.arange(b, device=x.device)).flatten(1)  # (B, (n + 1) b)
        queries = _at(q, (times - length[:, None]).clamp(0, T - 1))
        own_blocks = (_at(y, times.clamp(0, y.shape[2] - 1)) for y in (past_k, past_v))
        queries, own_k, own_v = (y.unflatten(2, (-1, b)) for y in (queries, *own_blocks))
        has_own = (times >= 0).unflatten(1, (-1, b))
        has_sorted = (number > 0)[..., None].expand(-1, -1, b)
        y = read(queries, sorted_k, sorted_v, own_k, own_v, has_sorted, has_own, causal=True).flatten(2, 3)
        out = self.out(_at(y, (time - number[:, :1] * b).clamp(max=y.shape[2] - 1)))  # only padding is beyond the end

        # the entries after the last token of each row
        tokens = torch.full_like(length, T) if lengths is None else lengths
        sums = _at(total, (tokens - 1).clamp(min=0)[:, None])[:, :, 0]
        entries["sum"] = torch.where((tokens > 0)[:, None, None], sums, state["sum"])
        last = ((length + tokens - 1) // b - first + 1)[:, None, None, None, None]  # index of its block in `number`
        for name, sorted_block in (("sorted_k", sorted_k), ("sorted_v", sorted_v)):
            index = last.expand(-1, self.heads, 1, b, self.K)
            entries[name] = sorted_block.gather(2, index)[:, :, 0].to(state[name].dtype)
        return out, entries

    def _token(self, x: Stream, t: int, state: State, reuse: bool) -> tuple[Stream, Entries]:
        """The output and entries for token t (x of one token). The first token of a block computes its sorted block."""
        q, k, v = self.project(x)
        (past_k, past_v), entries = self._extend_caches(k, v, state, None, reuse)
        i, c = divmod(t, self.block)  # slot c of block i
        total = state["sum"] + k[:, :, 0] if t else k[:, :, 0]
        sorted_k, sorted_v = (state[name] for name in ("sorted_k", "sorted_v"))
        if i and c == 0:
            z = self.scores((total / (t + 1)).to(x.dtype)[:, :, None])[..., :i]
            weights = sinkhorn.balance_matrix(z, torch.ones_like(z[:1, :1], dtype=torch.bool), 1, columns=False)
            earlier_blocks = (y[:, :, :t].unflatten(2, (i, self.block)) for y in (past_k, past_v))
            sorted_k, sorted_v = (mix_blocks(weights, y)[:, :, 0] for y in earlier_blocks)
        keys, values = (y[:, :, t - c : t + 1] for y in (past_k, past_v))
        if i:
            keys = torch.cat([sorted_k.to(x.dtype), keys], 2)
            values = torch.cat([sorted_v.to(x.dtype), values], 2)
        visible = torch.ones(1, keys.shape[2], dtype=torch.bool, device=x.device)
        entries |= {"sum": total.to(state["sum"].dtype), "sorted_k": sorted_k, "sorted_v": sorted_v}
        return self.out(attend_shared_slots(q, keys, values, visible)), entries

    def _extend_caches(
        self, k: Tensor, v: Tensor, state: State, lengths: Lengths | None, reuse: bool
    ) -> tuple[tuple[Tensor, Tensor], Entries]:
        """Keys and values (B, H, C, K) of all tokens so far, and the caches after new ones k, v (B, H, T, K)."""
        new = {name: y.transpose(1, 2).flatten(2) for name, y in (("k", k), ("v", v))}
        past, entries = with_past(state, new, lengths, reuse)
        past_k, past_v = (past[name].unflatten(2, (self.heads, -1)).transpose(1, 2) for name in ("k", "v"))
        return (past_k, past_v), entries


def _at(x: Tensor, index: Tensor) -> Tensor:
    """x (B, H, T, K) at positions (B, n): (B, H, n, K)."""
    return x.gather(2, index[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
