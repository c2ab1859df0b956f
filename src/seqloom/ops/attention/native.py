"""Attention over the tiles of a plan in C (tiles.c): a thread computes whole heads."""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.attention.plan import Part
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("tiles.c")
OP = "sparse_attention"
READS = (Argument("q", "P N b K"), Argument("k", "P M c K"), Argument("v", "P M c V"))
LISTS = (
    Argument("blocks", "N m", torch.int32),
    Argument("masks", "N m", torch.int32),
    Argument("table", "U b c", torch.uint8),
    Argument("whole", "U", torch.uint8),
)
NUMBERS = "threads P N b M c K V m U"
FORWARD = Entry(
    OP,
    SOURCE,
    "forward",
    NUMBERS,
    *READS,
    *LISTS,
    Argument("y", "P N b V", written=True),
    Argument("log", "P N b", written=True),
    Argument("scratch", "threads*M*c*K+threads*b*m*c", written=True),
)
BACKWARD = Entry(
    OP,
    SOURCE,
    "backward",
    NUMBERS,
    *READS,
    Argument("dy", "P N b V"),
    Argument("log", "P N b"),
    Argument("delta", "P N b"),
    *LISTS,
    Argument("dq", "P N b K", written=True),
    Argument("dk", "P M c K", written=True),
    Argument("dv", "P M c V", written=True),
    Argument("scratch", "threads*M*c*K+threads*M*c*V+2*threads*b*c", written=True),
)


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


def able(q: Tensor, v: Tensor, parts: tuple[Part, ...]) -> bool:
    """Whether tiles, keys and values fill whole vectors, and there is native code."""
    lanes = 64 // q.element_size()
    widths = [q.shape[-1], v.shape[-1], *(part.table.shape[2] for part in parts)]
    on_cpu = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    return on_cpu and all(width % lanes == 0 for width in widths) and native.library(SOURCE) is not None


def average(q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None, H: int) -> tuple[Tensor, Tensor]:
    """As `portable.average`; without lengths."""
    (P, N, b, K), (M, c, V), m = q.shape, v.shape[1:], part.blocks.shape[1]
    threads = _threads(P)
    y, log = q.new_empty(P, N, b, V), q.new_empty(P, N, b)
    scratch = q.new_empty(threads * M * c * K + threads * b * m * c)
    _checked(FORWARD(q, k, v, *_lists(part), y, log, scratch, threads=threads))
    return y, log[..., None]


def gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dy: Tensor,
    log: Tensor,
    delta: Tensor,
    part: Part,
    lengths: Tensor | None,
    H: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `portable.gradients`; without lengths."""
    (P, _, b, K), (M, c, V) = q.shape, v.shape[1:]
    threads = _threads(P)
    dq, dk, dv = (x.new_zeros(x.shape) for x in (q, k, v))
    scratch = q.new_empty(threads * M * c * K + threads * M * c * V + 2 * threads * b * c)
    given = (q, k, v, dy, log[..., 0], delta[..., 0], *_lists(part))
    _checked(BACKWARD(*given, dq, dk, dv, scratch, threads=threads))
    return dq, dk, dv


def _threads(heads: int) -> int:
    return min(native.threads(1 << 30), heads)


def _checked(failed: int) -> None:
    if failed:
        raise ValueError("sizes do not fill vectors, or a list of tiles names what is not there")


def _lists(part: Part) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    whole = part.table.flatten(1).all(1)
    return part.blocks.int(), part.masks.int(), part.table.view(torch.uint8), whole.view(torch.uint8)
