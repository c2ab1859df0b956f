"""Calls of C without a state: norms, gates, small blocks, the short convolution, attention over tiles."""

from collections.abc import Iterator
from functools import partial
from typing import get_args

import torch

from seqloom.ops.attention import sparse
from seqloom.ops.attention.forgetting import forgetting
from seqloom.ops.attention.patterns import Pattern, RandomBlocks, fixed_parts, local, merge_parts, strided_parts
from seqloom.ops.fused import gated_decay, gated_norm, short_convolution, small_blocks
from tests.ops.native_forms.form import Draw, Form, Outputs, maybe, with_and_without

HEADS = ((2, 33, 1, 4), (1, 65, 3, 9), (3, 1, 2, 17), (1, 64, 2, 7), (1, 129, 1, 33), (2, 3, 3, 1))
"""B, T, H and V: spans are of 64 tokens of all rows"""


def forms() -> Iterator[Form]:
    """Each of them."""
    for gate in get_args(gated_norm.Gate):
        yield Form(f"gated_norm {gate}", "gated_norm", partial(_norm, gate), HEADS)
    for heads in (1, 3):
        for fresh in ("no row", "every row", "some rows"):
            name, sizes = f"gated_decay {heads} heads, fresh: {fresh}", ((2, 33, 4), (3, 1, 9), (1, 65, 17), (2, 64, 7))
            yield Form(name, "gated_decay", partial(_gates, heads, fresh), sizes)
    for n in (1, 2, 3, 4, 5, 9, 16):
        sizes = ((2, 33, 1), (1, 65, 3), (3, 1, 5), (1, 64, 9))
        yield Form(f"small_blocks of {n}", "small_blocks", partial(_blocks, n), sizes)
    for name, given in with_and_without("short_convolution", "silu", "bias", "window"):
        sizes = ((2, 129, 4, 4), (1, 3, 9, 3), (3, 1, 17, 4), (1, 130, 7, 2), (2, 5, 33, 1), (1, 2, 16, 5))
        yield Form(name, "short_convolution", partial(_convolution, *given), sizes)
    patterns = {"local": local(5), "strided": merge_parts(strided_parts(16)), "fixed": merge_parts(fixed_parts(16, 2))}
    patterns["random"] = RandomBlocks(16, 1, 1, 1, 0, 0)
    for name, pattern in patterns.items():
        sizes = ((1, 2, 48, 16, 32), (1, 1, 66, 48, 16), (1, 2, 33, 80, 96))
        yield Form(f"sparse_attention {name}", "sparse_attention", partial(_tiles, pattern), sizes)
    for window in (None, 1, 20, 64, 66):
        sizes = ((1, 2, 129, 16, 32), (2, 1, 64, 48, 16), (1, 2, 33, 16, 16), (1, 1, 1, 16, 80))
        yield Form(f"forgetting within {window}", "forgetting", partial(_forgetting, window), sizes)


def _norm(gate: gated_norm.Gate, draw: Draw, B: int, T: int, H: int, V: int) -> Outputs:
    gain = draw(H, V) if gate == "silu first" else draw(V)
    return gated_norm.normalize(draw(B, T, H, V), maybe(draw, gate != "none", B, T, H * V), gain, 0.1, gate)


def _gates(H: int, fresh: str, draw: Draw, B: int, T: int, N: int) -> Outputs:
    rows = {"no row": False, "every row": True, "some rows": torch.arange(B) % 2 == 0}[fresh]
    return gated_decay.gate_decay(draw(B, T, H * N), draw(H, N, 2 * N) / N**0.5, draw(H, 2 * N), draw(H * N), rows)


def _blocks(n: int, draw: Draw, B: int, T: int, N: int) -> Outputs:
    return small_blocks.products(draw(B, T, N * n), draw(N, n, n))


def _convolution(silu: bool, bias: bool, window: bool, draw: Draw, B: int, T: int, D: int, W: int) -> Outputs:
    past = maybe(draw, window, B, W - 1, D)
    return short_convolution.convolve(draw(B, T, D), draw(W, D), maybe(draw, bias, D), past, silu)


def _tiles(pattern: Pattern, draw: Draw, B: int, H: int, T: int, K: int, V: int) -> Outputs:
    return sparse.attend(draw(B, H, T, K), draw(B, H, T, K), draw(B, H, T, V), [pattern])


def _forgetting(window: int | None, draw: Draw, B: int, H: int, T: int, K: int, V: int) -> Outputs:
    g = -draw(B, H, T).square()
    return forgetting(draw(B, H, T, K), draw(B, H, T, K), draw(B, H, T, V), g, window=window)
