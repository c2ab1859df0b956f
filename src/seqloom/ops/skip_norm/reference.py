"""The norm, the skip and the gate as they are written, and their price, counted from them."""

from torch import Tensor
from torch.nn.functional import layer_norm, silu

from seqloom.core.cost import Cost
from seqloom.core.cost import gate as gate_price
from seqloom.core.cost import layernorm as layernorm_price


def normed(x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor, eps: float) -> Tensor:
    """x (B, T, H, V), gain and skip (H V), c and z (B, T, H V) → (B, T, H V)."""
    return (layer_norm(x, x.shape[-1:], eps=eps).flatten(2) * gain + skip * c) * silu(z)


def price(rows: int, heads: int, width: int) -> Cost:
    """The price for `rows` tokens."""
    n = rows * heads * width
    skipped = Cost(mul=2 * n, add=n, path=("multiplication", "addition"))
    return layernorm_price(rows * heads, width, gain=False, bias=False) + skipped + gate_price(n)
