"""The norm, the skip and the gate as they are written."""

from torch import Tensor
from torch.nn.functional import layer_norm, silu


def normed(x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor, eps: float) -> Tensor:
    """x (B, T, H, V), gain and skip (H V), c and z (B, T, H V) → (B, T, H V)."""
    return (layer_norm(x, x.shape[-1:], eps=eps).flatten(2) * gain + skip * c) * silu(z)
