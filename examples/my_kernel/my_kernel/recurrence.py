"""The recurrence of independent channels, which is not linear, so that no scan computes it.

    h_t = tanh(a ∘ h_{t-1} + z_t),   h_0 = `state`

and its gradients, from the last token to the first, where g_t is that of z_t:

    g_t = (dh_t + a ∘ g_{t+1}) ∘ (1 - h_t²)
    da = Σ g_t ∘ h_{t-1},   dstate = a ∘ g_1

`reference` and `gradients` are these loops, in plain torch; kernels.py has them for a GPU. `forward` makes the kernels
an operator of torch, which compiled models contain unchanged; a second derivative is computed by `gradients`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import gpu
from seqloom.ops.autograd import GPU, Operator, pair_operators
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

BLOCK = 32
"""channels of a program, one for each thread of a warp"""


@check_shapes("independent_recurrence")
def recur(
    a: Float[Tensor, " D"], z: Stream, state: Float[Tensor, "B D"] | None = None, *, lengths: Lengths | None = None
) -> tuple[Stream, Float[Tensor, "B D"]]:
    """Every h_t (B, T, D), and the state after the last token (B, D); no `state` means 0.

    With `lengths` (B,) a row has that many tokens, then padding, whose h is finite and arbitrary. Computed in float32
    at least, which is also the dtype of the state. Raises ValueError where shapes do not agree.
    """
    wide = torch.promote_types(z.dtype, torch.float32)
    initial = z.new_zeros(len(z), z.shape[2], dtype=wide) if state is None else state.to(wide)
    if z.numel() == 0:
        return z.clone(), initial.clone()
    h = OP[OP.choose(z)](a.to(wide), z.to(wide), initial)
    if lengths is None:
        return h.to(z.dtype), h[:, -1].clone()
    last = h[torch.arange(len(h), device=h.device), (lengths - 1).clamp(min=0)]
    return h.to(z.dtype), torch.where((lengths > 0)[:, None], last, initial)


def reference(a: Tensor, z: Tensor, state: Tensor) -> Tensor:
    """The recurrence as it is written, token by token."""
    h, states = state, []
    for z_t in z.unbind(1):
        h = torch.tanh(a * h + z_t)
        states.append(h)
    return torch.stack(states, 1)


def gradients(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of a, z and the state, from the last token to the first; they have derivatives again."""
    g, slopes = torch.zeros_like(state), []
    for h_t, dh_t in zip(reversed(h.unbind(1)), reversed(dh.unbind(1)), strict=True):
        g = (dh_t + a * g) * (1 - h_t * h_t)
        slopes.append(g)
    dz = torch.stack(slopes[::-1], 1)
    before = torch.cat([state[:, None], h[:, :-1]], 1)
    return (dz * before).sum((0, 1)), dz, a * g


def price(numbers: int) -> Cost:
    """The price for `numbers` numbers: a product, a sum and a tanh each."""
    return Cost(
        mul=2 * numbers,
        add=3 * numbers,
        div=numbers,
        exp=numbers,
        path=("multiplication", "addition", "exponentiation", "addition", "division"),
    )


def _forward(a: Tensor, z: Tensor, state: Tensor) -> Tensor:
    from my_kernel import kernels

    B, T, D = z.shape
    h = z.new_empty(z.shape)
    with torch.cuda.device_of(z):
        kernels.forward[B, gpu.blocks(D, BLOCK)](
            a.contiguous(), z.contiguous(), state.contiguous(), h, T, D, BLOCK, num_warps=1
        )
    return h


def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    from my_kernel import kernels

    B, T, D = h.shape
    da, dz, dstate = state.new_empty(state.shape), h.new_empty(h.shape), state.new_empty(state.shape)
    with torch.cuda.device_of(h):
        kernels.backward[B, gpu.blocks(D, BLOCK)](
            a.contiguous(), h, state.contiguous(), dh.contiguous(), da, dz, dstate, T, D, BLOCK, num_warps=1
        )
    return da.sum(0), dz, dstate


forward: Operator = pair_operators(
    "independent_recurrence",
    _forward,
    _backward,
    shapes=lambda a, z, state: [z.shape],
    gradient_shapes=lambda a, h, state, dh: [a.shape, h.shape, state.shape],
    save=lambda inputs, outputs: (inputs[0], outputs[0], inputs[2]),
    differentiable=gradients,
    devices=GPU,
)


def choose_backend(z: Tensor) -> str:
    """The kernel on a GPU, for more than one token; the loop elsewhere."""
    return "triton" if z.shape[1] > 1 and gpu.best(z.device) else "reference"


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    return recur(draw(CHANNELS).tanh(), draw(B, T, CHANNELS), draw(B, CHANNELS))


OP = Op(
    "independent_recurrence",
    {
        "reference": Backend(reference),
        "triton": Backend(forward, gpu.unavailable, lambda z: gpu.supports(z.device)),
    },
    rule=choose_backend,
    examples=(_example,),
    price=price,
)
