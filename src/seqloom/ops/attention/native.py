"""Attention over the tiles of a plan in C (tiles.c): a thread computes whole heads."""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.attention.plan import Part
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("tiles.c")
OP = "sparse_attention"
READS = (Argument("q", "B N*b H K"), Argument("k", "B M*c H K"), Argument("v", "B M*c H V"))
LISTS = (
    Argument("blocks", "N m", torch.int32),
    Argument("masks", "N m", torch.int32),
    Argument("table", "U c b", torch.uint8),
    Argument("all_visible", "U", torch.uint8),
)
NUMBERS = "threads B H N b M c K V m U"
FORWARD = Entry(
    OP,
    SOURCE,
    "forward",
    NUMBERS,
    *READS,
    *LISTS,
    Argument("y", "B N*b H V", written=True),
    Argument("log_sum", "B H N*b", written=True),
    Argument("scratch", "threads*b*K+3*threads*b+threads*m*c*b", written=True),
)
BACKWARD = Entry(
    OP,
    SOURCE,
    "backward",
    NUMBERS,
    *READS,
    Argument("dy", "B N*b H V"),
    Argument("log_sum", "B H N*b"),
    Argument("delta", "B H N*b"),
    *LISTS,
    Argument("dq", "B N*b H K", written=True),
    Argument("dk", "B M*c H K", written=True),
    Argument("dv", "B M*c H V", written=True),
    Argument("scratch", "threads*b*K+threads*b*V+2*threads*b*c", written=True),
)


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def able(q: Tensor, v: Tensor, parts: tuple[Part, ...]) -> bool:
    """Whether the blocks of queries, keys and values fill vector registers, and there is native code."""
    lanes = 64 // q.element_size()
    widths = [q.shape[-1], v.shape[-1], *(part.table.shape[1] for part in parts)]
    on_cpu = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    return on_cpu and all(width % lanes == 0 for width in widths) and native.library(SOURCE) is not None


def average(q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """`tiled.Loops.average` in C, for rows without `lengths`."""
    (B, tokens, H, K), V = q.shape, v.shape[3]
    (b, c), m = part.table.shape[1:], part.blocks.shape[1]
    threads = _threads(B * H)
    y, log_sum = q.new_empty(B, tokens, H, V), q.new_empty(B, H, tokens)
    scratch = q.new_empty(threads * b * (K + 3 + m * c))
    _checked(FORWARD(q, k, v, *_lists(part), y, log_sum, scratch, threads=threads, M=len(part.keys)))
    return y, log_sum


def gradients(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, log_sum: Tensor, delta: Tensor, part: Part, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`tiled.Loops.gradients` in C, for rows without `lengths`."""
    (B, _, H, K), V = q.shape, v.shape[3]
    b, c = part.table.shape[1:]
    threads = _threads(B * H)
    dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
    scratch = q.new_empty(threads * b * (K + V + 2 * c))
    inputs = (q, k, v, dy, log_sum, delta, *_lists(part))
    _checked(BACKWARD(*inputs, dq, dk, dv, scratch, threads=threads, M=len(part.keys)))
    return dq, dk, dv


def _threads(heads: int) -> int:
    """The number of threads: at most one for each of the heads of all rows."""
    return min(native.threads(1 << 30), heads)


def _checked(error: int) -> None:
    if error:
        raise ValueError("sizes do not fill vectors, or a list of tiles names what is not there")


def _lists(part: Part) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Blocks, masks, the table (U, c, b) and which of its masks are all True, in the dtypes that the C code reads."""
    table = part.table.transpose(1, 2).contiguous()
    all_visible = part.table.flatten(1).all(1)
    return part.blocks.int(), part.masks.int(), table.view(torch.uint8), all_visible.view(torch.uint8)
