"""The reference: the norm and the gate as they are written."""

from torch import Tensor
from torch.nn.functional import rms_norm, sigmoid, silu


def normed(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: str) -> Tensor:
    """y (B, T, H, V), z (B, T, H V), gain (V,) or (H, V) → (B, T, H V)."""
    width = y.shape[-1:]
    if z is None:
        return rms_norm(y, width, gain, eps).flatten(2)
    if gate == "silu first":
        return (rms_norm(y * silu(z).view_as(y), width, eps=eps) * gain).flatten(2)
    return rms_norm(y, width, gain, eps).flatten(2) * (silu(z) if gate == "silu" else sigmoid(z))
