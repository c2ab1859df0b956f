"""Attention over the tiles of a plan in C (tiles.c): a thread computes whole heads."""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.attention.plan import Part
from seqloom.ops.kernel import Kernel

NUMBERS = "threads B H N b M c K V m U"
READS = "q(B N*b H K) k(B M*c H K) v(B M*c H V)"
SUMS = "query_sums?(B H N*b, float64) key_sums?(B H M*c, float64)"
LISTS = "blocks(N m, int32) masks(N m, int32) table(U c b, uint8) all_visible(U, uint8)"
MISFIT = "sizes do not fill vectors, a list of tiles names what is not there, or sums are given without others"
KERNEL = Kernel("sparse_attention", Path(__file__).with_name("tiles.c"), least="")
OP, SOURCE = KERNEL.op, KERNEL.source
FORWARD = KERNEL.function(
    "forward",
    NUMBERS,
    f"{READS} {SUMS} {LISTS}",
    makes="y(B N*b H V) log_sum(B H N*b)",
    room="scratch(threads*b*K+3*threads*b+threads*m*c*b)",
    fails=MISFIT,
)
BACKWARD = KERNEL.function(
    "backward",
    NUMBERS,
    f"{READS} {SUMS} dy(B N*b H V) log_sum(B H N*b) delta(B H N*b) {LISTS}"
    " dq(B N*b H K, written) dk(B M*c H K, written) dv(B M*c H V, written)"
    " dquery_sums?(B H N*b, float64, written) dkey_sums?(B H M*c, float64, written)",
    room="scratch(threads*b*K+threads*b*V+2*threads*b*c)",
    fails=MISFIT,
)


def supports(q: Tensor, v: Tensor, parts: tuple[Part, ...]) -> bool:
    """Whether the blocks of queries, keys and values fill vector registers, and there is native code."""
    lanes = 64 // q.element_size()
    widths = [q.shape[-1], v.shape[-1], *(part.table.shape[1] for part in parts)]
    on_cpu = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    return on_cpu and all(width % lanes == 0 for width in widths) and KERNEL.available()


def average(q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """`tiled.Loops.average` in C, for rows without `lengths`."""
    made: tuple[Tensor, Tensor] = FORWARD(
        q, k, v, None, None, *list_tiles(part), threads=count_threads(q), M=len(part.keys)
    )
    return made


def gradients(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, log_sum: Tensor, delta: Tensor, part: Part, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`tiled.Loops.gradients` in C, for rows without `lengths`."""
    dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
    inputs = q, k, v, None, None, dy, log_sum, delta, *list_tiles(part)
    BACKWARD(*inputs, dq, dk, dv, None, None, threads=count_threads(q), M=len(part.keys))
    return dq, dk, dv


def count_threads(q: Tensor) -> int:
    """The number of threads: at most one for each of the heads of all rows."""
    return min(native.threads(1 << 30), q.shape[0] * q.shape[2])


def list_tiles(part: Part) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Blocks, masks, the table (U, c, b) and which of its masks are all True, in the dtypes that the C code reads."""
    table = part.table.transpose(1, 2).contiguous()
    all_visible = part.table.flatten(1).all(1)
    return part.blocks.int(), part.masks.int(), table.view(torch.uint8), all_visible.view(torch.uint8)
