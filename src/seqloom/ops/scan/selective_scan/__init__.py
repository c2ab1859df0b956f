"""The selective scan: a linear recurrence per channel whose step, input and output weights depend on the token.

    h_t = e^{Δ_t A} ∘ h_{t-1} + Δ_t u_t B_t,   y_t = h_t · C_t          per channel, with N states; h_0 = 0

u, Δ (B, T, D), Δ > 0; A = -e^log_rate (D, N); B, C (B, T, N). It includes what S6 and Mamba compute around it:

    Δ_t = softplus(delta_t + bias),   y_t = (h_t · C_t + skip ∘ u_t) ∘ silu(gate_t)

Without a gate there is no factor silu. The other files write b and c for B and C, which are the sizes of tensors there.

Source: Gu & Dao, Mamba, arXiv:2312.00752, Eq. 2 and Algorithm 2. A is discretized by zero-order hold, B by Euler's
rule, Δ B for (e^{Δ A} - 1) A⁻¹ B of their Eq. 4, as in the authors' code. Seed 004 calls B, C and Δ matrices that are
learned for each position; they are functions of the token. The argument is the logarithm of -A, the learned parameter,
so that a step and a sequence have the same price per token.
"""

from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import gpu as device
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.scan.selective_scan import doubling, gpu, kernels, native, reference, sequential, walks
from seqloom.ops.scan.selective_scan.inputs import Scan

States: TypeAlias = Float[Tensor, "B D N"]
Weights: TypeAlias = Float[Tensor, "B T N"]
"""B or C: the weights of each token for all channels"""


@check_shapes("selective", least="N")
def selective(
    u: Stream,
    delta: Stream,
    log_rate: Float[Tensor, "D N"],
    B: Weights,
    C: Weights,
    state: States | None = None,
    *,
    bias: Float[Tensor, " D"] | None = None,
    skip: Float[Tensor, " D"] | None = None,
    gate: Stream | None = None,
    lengths: Lengths | None = None,
) -> tuple[Stream, States]:
    """The scan at each position (B, T, D), and the state (B, D, N) after the last token, in float32 at least.

    Without a `bias`, delta is Δ itself; without `skip` and `gate`, y is h · C. With `lengths` (B,) a row has that many
    tokens, then padding that is ignored: y is 0 there, and the state is the one after its tokens. All backends are
    exactly causal and differentiable twice in every argument. Raises ValueError where shapes do not agree.
    """
    kind = u.dtype
    wide = torch.promote_types(kind, torch.float32)
    if u.numel() == 0:
        new_state = u.new_zeros(len(u), *log_rate.shape, dtype=wide) if state is None else state.to(wide, copy=True)
        return u.clone(), new_state
    name = OP.choose(u)
    inputs: tuple[Tensor | None, ...] = (u, delta, log_rate, B, C, state, bias, skip, gate)
    if lengths is not None and name != "native":  # native code stops at `lengths` itself
        real = within(lengths, u.shape[1])[:, :, None]
        u, delta, B, C = (torch.where(real, tensor, 0.0) for tensor in (u, delta, B, C))
        gate = None if gate is None else torch.where(real, gate, 0.0)
        inputs = (u, delta, log_rate, B, C, state, bias, skip, gate)
    widened = (tensor if tensor is None else tensor.to(wide) for tensor in inputs)
    y, new_state = OP[name](Scan._make((*widened, lengths)))
    return y if y.dtype == kind else y.to(kind), new_state


def choose_backend(u: Tensor) -> str:
    """The fastest backend for these inputs: measured on 2 CPU cores (docs/log.md).

    Native code is the fastest at every size, but an exported graph must run without it. Of the other backends, the one
    that goes token by token is slow on other devices and in graphs.
    """
    cpu = u.is_cpu
    if u.shape[1] == 1:
        return "reference"
    if cpu and kernels.KERNEL.available() and not torch.compiler.is_exporting():
        return "native"
    if device.best(u.device):
        return "triton"
    return "sequential" if cpu and not capturing() else "doubling"


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    u, delta, gate = (draw(B, T, CHANNELS) for _ in range(3))
    log_rate, b, c, state = draw(CHANNELS, 16), draw(B, T, 16), draw(B, T, 16), draw(B, CHANNELS, 16)
    return selective(u, delta, log_rate, b, c, state, bias=draw(CHANNELS), skip=draw(CHANNELS), gate=gate)


OP = Op(
    "selective_scan",
    {
        "reference": Backend(reference.selective),
        "sequential": Backend(partial(walks.selective, sequential)),
        "doubling": Backend(partial(walks.selective, doubling)),
        "native": Backend(native.selective, kernels.KERNEL.unavailable, lambda u: u.device.type == "cpu"),
        "triton": Backend(gpu.selective, device.unavailable, lambda u: device.supports(u.device)),
    },
    rule=choose_backend,
    examples=(_example,),
    price=reference.price,
)
