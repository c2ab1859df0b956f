"""The norm of heads with its gate on a GPU by flash-linear-attention's kernel: one pass over memory, in y's dtype."""

import torch
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.ops.fla import refuse_second_derivatives, runs_on
from seqloom.ops.native import is_observed


def supports(y: Tensor, z: Tensor | None, gain: Tensor) -> bool:
    """Whether the kernel supports the call: with a gate after the norm, of one dtype with y.

    It is no operator of torch, so it runs where nothing observes these.
    """
    gated = z is not None and z.dtype == y.dtype and gain.ndim == 1
    return gated and runs_on(y) and not capturing() and not is_observed(y)


def normalize(y: Tensor, z: Tensor, gain: Tensor, eps: float, gate: str) -> Tensor:
    """y (B, T, H, V), z (B, T, H V), gain (V,) → (B, T, H V)."""
    from fla.modules.norm.fused_norm_gate import rms_norm_gated

    with torch.autocast(y.device.type, enabled=False):
        outputs = rms_norm_gated(y.contiguous(), z.view(y.shape).contiguous(), gain, None, activation=gate, eps=eps)
    return refuse_second_derivatives(outputs, "reference").flatten(2)
