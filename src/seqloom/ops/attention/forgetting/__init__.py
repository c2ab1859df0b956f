"""Attention with a forget gate: a score is lowered by the log gates of the tokens after the key, up to the query.

    z_ij = q_i · k_j / √K + Σ_{j<s≤i} g_s,   a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'},   y_i = Σ_{j≤i} a_ij v_j      g ≤ 0

The backend `native` adds the sums c_i - c_j, c_i = Σ_{s≤i} g_s, to the scores of a tile. In `columns` they are two more
channels, (1, c_i) of queries times (-c_j, 1) of keys, so that no T² numbers are stored. c is summed in float64, and the
c of a block's first query, which no later token changes, is subtracted: then rounding to float32 changes c by eps times
the sum of a block, except for keys that are far away and have no weight. In a narrower dtype each c is the sum of three
channels, which together have the digits of float32. The channel of c_i does not change the outputs, but its gradient
subtracts the rounding error that all scores of a query have in common, which would otherwise add up in the gradients of
the gates.

Source: Lin et al., Forgetting Transformer, arXiv:2503.02130, section 3. Nothing differs.
"""

from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from seqloom.ops.attention import attend, band_pattern
from seqloom.ops.attention.fast import times
from seqloom.ops.attention.forgetting import native, reference
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

BLOCK = 64
"""queries of a block"""


@check_shapes("forgetting")
def forgetting(
    q: Shaped[Tensor, "B H T K"],
    k: Shaped[Tensor, "B H N K"],
    v: Shaped[Tensor, "B H N V"],
    g: Float[Tensor, "B H T"],
    past: Float[Tensor, "B H P"] | None = None,
    *,
    window: int | None = None,
    query_time: Int[Tensor, "B T"] | None = None,
    key_time: Int[Tensor, "B N"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs y. A query sees its own key and those before it, at most `window` in all.

    Of the N = P + T keys the first P are of earlier pieces; `past` has, for each of them, the sum of g over the tokens
    after it up to this piece. Times are 0, 1, … where they are not given; with a past they must be given. A key with a
    negative time is empty.
    """
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    whole = past is None and query_time is None and key_time is None
    backend = OP.choose(q, v, whole)
    if backend == "native" and whole:
        return native.forgetting(q, k, v, g, window)
    # `native` takes whole texts only
    run = reference.forgetting if backend == "reference" else columns
    return run(q, k, v, g, past, window, query_time, key_time)


def choose_backend(q: Tensor, v: Tensor, whole: bool) -> str:
    """The fastest backend; `whole`: the piece is the whole text."""
    return "native" if whole and native.able(q, v) and not torch.compiler.is_exporting() else "columns"


def columns(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    past: Tensor | None,
    window: int | None,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """The backend `columns`: the sums as two more channels, by blocks of queries, with the kernels of `attention`."""
    T, K = q.shape[2:]
    c = g.double().cumsum(-1)
    sums = -c if past is None else torch.cat([past.double(), -c], -1)  # of the keys
    i, j = times(q, query_time).expand(len(q), -1), times(k, key_time).expand(len(q), -1)
    outputs = []
    for start in range(0, T, BLOCK):
        stop = min(start + BLOCK, T)
        queries = slice(start, stop)
        first_key = 0 if past is not None or window is None else max(0, start + 1 - window)
        keys = slice(first_key, k.shape[2] - T + stop)
        origin = c[:, :, start, None]  # the first query's sum, which no later token changes
        query_sums = _channels(c[:, :, queries] - origin, q.dtype)
        key_sums = _channels(sums[:, :, keys] + origin, k.dtype)
        wide_q = torch.cat([q[:, :, queries] * K**-0.5, torch.ones_like(query_sums), query_sums], -1)
        wide_k = torch.cat([k[:, :, keys], key_sums, torch.ones_like(key_sums)], -1)
        options: dict[str, Any] = {"query_time": i[:, queries], "key_time": j[:, keys], "scale": 1.0}
        outputs.append(attend(wide_q, wide_k, v[:, :, keys], pattern=band_pattern(window), **options))
    return torch.cat(outputs, 2)


def _channels(sums: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of a dtype (…, C) whose sum over the channels is `sums`: one, or three of a dtype below float32."""
    count = 1 if dtype.itemsize >= torch.float32.itemsize else 3
    largest = torch.finfo(dtype).max
    channels = []
    for _ in range(count):
        channels.append(sums.clamp(-largest, largest).to(dtype))
        sums = sums - channels[-1]
    return torch.stack(channels, -1)


def _example(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return forgetting(q, k, v, -draw(B, 4, T).square())


def _window(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 2, T, CHANNELS // 2) for _ in range(3))
    return forgetting(q, k, v, -draw(B, 2, T).square(), window=3)


OP = Op(
    "forgetting",
    {
        "reference": Backend(reference.forgetting),
        "columns": Backend(columns, plain=True),
        "native": Backend(native.forgetting, native.lacking, lambda q, v, whole: native.able(q, v)),
    },
    rule=choose_backend,
    examples=(_example, _window),
    price=reference.price,
)
