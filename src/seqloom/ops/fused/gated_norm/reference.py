"""The norm and the gate as they are written, and their price, counted from them."""

from torch import Tensor
from torch.nn.functional import sigmoid, silu

from seqloom.core.cost import Cost, rootnorm
from seqloom.core.cost import gate as gate_price
from seqloom.ops.fused.rms_norm import rms_norm


def normalize(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: str) -> Tensor:
    """y (B, T, H, V), z (B, T, H V), gain (V,) or (H, V) → (B, T, H V)."""
    width = y.shape[-1:]
    if z is None:
        return rms_norm(y, width, gain, eps).flatten(2)
    if gate == "silu first":
        return (rms_norm(y * silu(z).view_as(y), width, eps=eps) * gain).flatten(2)
    return rms_norm(y, width, gain, eps).flatten(2) * (silu(z) if gate == "silu" else sigmoid(z))


def price(rows: int, heads: int, width: int, gated: bool) -> Cost:
    """The price for `rows` tokens."""
    norm = rootnorm(rows * heads, width)
    return gate_price(rows * heads * width) + norm if gated else norm
