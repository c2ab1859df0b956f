"""Softmax attention over a sparse pattern; only tiles with visible pairs are computed.

    y_i = Σ_j e^{z_ij} v_j / Σ_j e^{z_ij},   z_ij = q_i · k_j / √K       over the j for which `pattern(i, j)` is True

The scores of a few tiles are in memory at a time, forward and backward; for the backward pass only log Σ_j e^{z_ij} is
saved. The parts of a pattern have no pair in common, so their averages are joined by these logarithms.

Source: Dao et al., FlashAttention, arXiv:2205.14135, Algorithms 1 and 4, over a list of tiles; nothing differs.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths
from seqloom.ops import attention, backends
from seqloom.ops.attention import flex, native, portable, reference, tiled
from seqloom.ops.attention.patterns import (
    Columns,
    Pattern,
    Permuted,
    RandomBlocks,
    Raster,
    Union,
    around,
    blocks_before,
    fixed_parts,
    local,
    merge_parts,
    strided_parts,
)
from seqloom.ops.attention.plan import plan
from seqloom.ops.checked import check_shapes
from seqloom.ops.native import is_observed
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op

SHORT = 128
"""the most tokens for which a dense mask is faster"""


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G T K"],
    v: Float[Tensor, "B G T V"],
    patterns: Sequence[Pattern],
    lengths: Lengths | None = None,
) -> Float[Tensor, "B H T V"]:
    """Attention over whole sequences, with one pattern for all heads or one per head; H/G query heads share a key head.

    With `lengths` (B,) a row's keys after that many tokens are hidden. The output of a query that sees no key is 0. The
    backend `tiles` has no second derivatives.
    """
    if not isinstance(q, Tensor) or not is_observed(q):
        _require_fit(q, k, v)
    if q.numel() == 0 or v.numel() == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    return each_pattern(patterns, lambda pattern, q, k, v: _attend(q, k, v, pattern, lengths), q, k, v)


@check_shapes("sparse_attention")
def _require_fit(q: Shaped[Tensor, "B H T K"], k: Shaped[Tensor, "B G T K"], v: Shaped[Tensor, "B G T V"]) -> None:
    H, G = q.shape[1], k.shape[1]
    if H % max(G, 1):
        raise ValueError(f"sparse_attention: {H} heads of queries cannot share {G} of keys: G divides H")


def each_pattern(patterns: Sequence[Pattern], run: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Calls `run(pattern, q, k, v)` once per different pattern, and returns the results in the order of the heads."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) if x.shape[1] < q.shape[1] else x for x in (k, v))
    groups = heads_of(patterns)
    if len(groups) == 1:
        return run(patterns[0], q, k, v)
    outputs = [run(pattern, *(_select_heads(x, heads) for x in (q, k, v))) for pattern, heads in groups.items()]
    return in_order(outputs, groups)


def _select_heads(x: Tensor, heads: list[int]) -> Tensor:
    """The given heads of x (B, H, T, K), without a copy where they are consecutive."""
    first, count = heads[0], len(heads)
    return x.narrow(1, first, count) if heads == list(range(first, first + count)) else x[:, heads]


def heads_of(patterns: Sequence[Pattern]) -> dict[Pattern, list[int]]:
    """The heads of each pattern."""
    return {distinct: [head for head, pattern in enumerate(patterns) if pattern == distinct] for distinct in patterns}


def in_order(outputs: Sequence[Tensor], groups: Mapping[Pattern, Sequence[int]]) -> Tensor:
    """The outputs of the heads of each pattern (B, h, …), joined in the order of the heads: (B, H, …)."""
    order = [head for heads in groups.values() for head in heads]
    y = torch.cat([*outputs], 1)
    return y if order == sorted(order) else y[:, [order.index(head) for head in range(len(order))]]


def _attend(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> Tensor:
    backend = OP.choose(q, v, pattern, lengths)
    T = q.shape[2]
    if backend == "flex":
        return flex.attend(q, k, v, pattern, lengths)
    if backend in ("tiles", "native"):
        return tiled.attend(q, k, v, lengths, plan(pattern.of(T), T), OP[backend])
    if lengths is None:
        return _dense(backend, q, k, v, pattern.of(T), None)
    time = torch.arange(T, device=q.device)
    key_time = torch.where(time < lengths[:, None], time, -1)
    if backend == "masked":
        return _dense(backend, q, k, v, pattern.of(lengths[:, None, None, None]), key_time)
    rows = [
        _dense(backend, q[b : b + 1], k[b : b + 1], v[b : b + 1], pattern.of(length), key_time[b : b + 1])
        for b, length in enumerate(lengths.tolist())
    ]
    return torch.cat(rows)


def _dense(backend: str, q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, key_time: Tensor | None) -> Tensor:
    """The backends `masked` and `reference`: attention that evaluates the pattern for all pairs."""
    if backend == "masked":
        return attention.attend(q, k, v, pattern=pattern, key_time=key_time)
    with backends.use(attention="reference"):
        return attention.attend(q, k, v, pattern=pattern, key_time=key_time)


def choose_backend(q: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> str:
    """The fastest backend: `masked` for short texts and in captured graphs; otherwise `flex` on a GPU, C on a CPU."""
    if q.shape[2] <= SHORT or _is_captured(q):
        return "masked"
    if _on_gpu(q, v, pattern, lengths):
        return "flex"
    if not _in_tiles(q, v, pattern, lengths):
        return "masked"
    return "native" if _in_c(q, v, pattern, lengths) else "tiles"


def _is_captured(q: Tensor) -> bool:
    return capturing() or is_observed(q)


def _on_gpu(q: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> bool:
    return not _is_captured(q) and flex.supports(q, v)


def _in_tiles(q: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> bool:
    """Whether the tiles are the same for all rows, and known: not in a graph, nor where they depend on row lengths."""
    return not _is_captured(q) and (lengths is None or not pattern.depends_on_length)


def _in_c(q: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> bool:
    """Whether the C code supports the call: rows of full length, and its dtypes and sizes."""
    T = q.shape[2]
    return lengths is None and _in_tiles(q, v, pattern, None) and native.supports(q, v, plan(pattern.of(T), T))


def _example(*patterns: Pattern, times: int = 1) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        q, k, v = (draw(B, 2, T * times, CHANNELS // 2) for _ in range(3))
        return attend(q, k, v, patterns)

    return example


OP = Op(
    "sparse_attention",
    {
        "reference": Backend(None),
        "masked": Backend(None, plain=True),
        "tiles": Backend(portable, fits=_in_tiles),
        "native": Backend(native, native.KERNEL.unavailable, _in_c),
        "flex": Backend(flex.attend, flex.unavailable, _on_gpu),
    },
    rule=choose_backend,
    examples=(
        _example(local(3), times=16),
        _example(*strided_parts(3)),
        _example(merge_parts(strided_parts(3)), merge_parts(fixed_parts(4, 2))),
        _example(blocks_before(4, 2), Raster(3, 2, 2, 1, 1)),
        _example(Permuted((0, 1)), Permuted((1, 0))),
        _example(Union((around(1), Columns((0, 7), causal=False, without=around(1))))),
        _example(RandomBlocks(2, 0, 1, 1, 0, 0), RandomBlocks(2, 1, 1, 1, 1, 0, causal=False)),
    ),
    price=reference.price,
)
