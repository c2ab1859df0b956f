"""RMSNorm over the channels of each head, with a gate before or after it.

    norm(y) = y / √(mean of y² + ε) ∘ gain                       over the channels of a head
    norm(y) ∘ silu(z)   or   norm(y) ∘ σ(z)                      gate after the norm; all heads share the gain (V,)
    norm(y ∘ silu(z))                                            gate before the norm; a gain for every channel

Source: the norm is Zhang and Sennrich's, arXiv:1910.07467; over the channels of a head, with a gate, as in
flash-linear-attention; with the gate before it as in Dao and Gu's program of Mamba-2. Nothing differs.
"""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.ops import fla as fla_kernels
from seqloom.ops.checked import check_shapes
from seqloom.ops.fused.gated_norm import fla, native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op

Gate: TypeAlias = Literal["none", "silu", "sigmoid", "silu first"]


@check_shapes("gated_norm")
def normalize(
    y: Float[Tensor, "B T H V"],
    z: Float[Tensor, "B T H*V"] | None,
    gain: Float[Tensor, " V"] | Float[Tensor, "H V"],
    eps: float,
    gate: Gate,
) -> Float[Tensor, "B T H*V"]:
    """The outputs of heads, normalized and gated by z, as one stream: D = H V.

    gain is (V,), or (H, V) for the gate `silu first`. Without z there is no gate, whatever `gate` is. Backends:
    `reference` by torch's norm; `native` in C on a CPU, in one pass over memory forward and one backward; and `fla`, by
    its kernel on a GPU, where y and z are both bfloat16 or both float16. Differentiable twice, but for `fla`.
    """
    if (gain.ndim == 2) != (gate == "silu first"):
        sizes = "(H, V)" if gate == "silu first" else "(V,)"
        raise ValueError(f"gated_norm: gain must be {sizes}, not {tuple(gain.shape)}")
    if y.numel() == 0:
        return y.flatten(2)
    outputs: Tensor = OP[OP.choose(y, z, gain)](y, z, gain, eps, gate)
    return outputs


def choose_backend(y: Tensor, z: Tensor | None, gain: Tensor) -> str:
    """The fastest backend. An exported graph must run where there is no native code."""
    if y.shape[1] == 1:
        return "reference"
    if y.device.type == "cuda" and fla.supports(y, z, gain):
        return "fla"
    return (
        "native"
        if supports(y, z, gain) and not torch.compiler.is_exporting() and native.KERNEL.available()
        else "reference"
    )


def supports(y: Tensor, z: Tensor | None, gain: Tensor) -> bool:
    """Whether the C code can run: on a CPU, all in float32 or all in float64, without autocast."""
    dtypes = {y.dtype, gain.dtype} | (set() if z is None else {z.dtype})
    same_dtype = dtypes in ({torch.float32}, {torch.float64})
    return same_dtype and y.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _example(gate: Gate) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        gain = draw(4, CHANNELS // 4) if gate == "silu first" else draw(CHANNELS // 4)
        z = None if gate == "none" else draw(B, T, CHANNELS)
        return normalize(draw(B, T, 4, CHANNELS // 4), z, gain, 1e-5, gate)

    return example


OP = Op(
    "gated_norm",
    {
        "reference": Backend(reference.normalize),
        "native": Backend(native.normalize, native.KERNEL.unavailable, supports),
        "fla": Backend(fla.normalize, fla_kernels.unavailable, fla.supports),
    },
    rule=choose_backend,
    examples=tuple(_example(gate) for gate in ("none", "silu", "sigmoid", "silu first")),
    price=reference.price,
)
