"""A running average of each channel, weighted by exponentials of keys that decay with time.

    y_t = (Σ_{j<t} e^{k_j - (t-1-j)w} v_j + e^{u+k_t} v_t) / (Σ_{j<t} e^{k_j - (t-1-j)w} + e^{u+k_t}),  w = e^log_rate

w ≥ 0 is the decay rate of a channel, u the `bonus` of the token itself; without both it is AFT-simple.

The state (B, 3, D) has a numerator, a denominator and a scale: the sums after the last token are the first two times
e^scale, so that they cannot overflow. Before the first token these are 0, 0 and -1e38.

Source: Peng et al., RWKV, arXiv:2305.13048, "WKV Operator"; Zhai et al., arXiv:2105.14103, AFT-simple. Seed 004 counts
the distance twice and prints e^u + k_t in the denominator (Eq. 19, 21); seed 001 takes it one too large (Eq. 8). The
argument is the logarithm of w, the learned parameter, so that a step and a sequence have the same price per token.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state_spec import StateEntry
from seqloom.ops import backends
from seqloom.ops import gpu as device
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.wkv_average import averages, doubling, gpu, native, reference, sequential


def empty(batch: int, dim: int, dtype: torch.dtype, device: torch.device | None = None) -> Float[Tensor, "B 3 D"]:
    """The state before the first token, in float32 at least: 0, 0 and -1e38."""
    return sums_of(dim).init(batch, dtype, device)


def sums_of(dim: int) -> StateEntry:
    """The declaration of the state of `dim` channels."""
    return StateEntry((3, dim), "wide", (0.0, 0.0, averages.NOTHING))


@check_shapes("wkv")
def wkv(
    k: Stream,
    v: Stream,
    log_rate: Float[Tensor, " D"] | None = None,
    bonus: Float[Tensor, " D"] | None = None,
    state: Float[Tensor, "B 3 D"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Float[Tensor, "B 3 D"]]:
    """The running average at each position (B, T, D), and the state after the last token.

    `log_rate` None means w = 0, `bonus` None u = 0. With `lengths` (B,) a row has that many tokens, then padding; its
    state is the one after its tokens. Computed in float32 or better. All backends are exactly causal, also where terms
    underflow, and differentiable twice in every argument; all but `reference` accept keys of any size. Raises
    ValueError where shapes do not agree.
    """
    kind = torch.promote_types(k.dtype, v.dtype)
    wide = torch.promote_types(kind, torch.float32)
    initial = empty(len(k), k.shape[2], wide, k.device) if state is None else state.to(wide)
    if k.numel() == 0:
        return v.clone().to(kind), initial.clone()
    name = OP.choose(k)
    k, v = k.to(wide), v.to(wide)
    log_rate, bonus = (None if tensor is None else tensor.to(wide) for tensor in (log_rate, bonus))
    # in the reference, as in its price, the first token of all has no sums before it
    before = None if state is None and name == "reference" else initial
    y, new_state = OP[name](k, v, log_rate, bonus, before, lengths)
    if lengths is not None:
        new_state = torch.where((lengths > 0)[:, None, None], new_state, initial)
    return y.to(kind), new_state


def whole_average(k: Stream, v: Stream, lengths: Lengths | None = None) -> Float[Tensor, "B 1 D"]:
    """The average of v (B, T, D) under keys k over whole rows without forgetting: a softmax over time in each channel.

    y = (Σ_j e^{k_j} v_j) / (Σ_j e^{k_j}) is the same for every token of the row. With `lengths` (B,) a row has that
    many tokens, then padding.
    """
    if backends.forced_backend("wkv_average") != "reference":
        k = k - k.detach().amax(1, keepdim=True)  # cancels in the ratio, and keeps e^k finite
    e = k.exp()
    if lengths is not None:
        e = torch.where(within(lengths, k.shape[1])[:, :, None], e, 0.0)
    sums = e.sum(1, keepdim=True)
    if lengths is not None:
        sums = sums.clamp_min(torch.finfo(sums.dtype).tiny)  # a row without tokens has 0, and its output is not used
    return (e * v).sum(1, keepdim=True) / sums


def choose_backend(k: Tensor) -> str:
    """The fastest backend for these keys: measured on one CPU core (docs/log.md).

    Native code is the fastest at every size, but an exported graph must run without it. Of the other backends, the one
    that goes token by token takes the same time for few channels as for many, and is slow on other devices and in
    graphs.
    """
    cpu = k.is_cpu
    if k.shape[1] == 1:
        return "doubling" if capturing() else "sequential"
    if cpu and native.KERNEL.available() and not torch.compiler.is_exporting():
        return "native"
    if device.best(k.device):
        return "triton"
    narrow = len(k) * k.shape[-1] <= 128
    return "doubling" if narrow or not cpu or capturing() else "sequential"


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    state = torch.stack([draw(B, CHANNELS), draw(B, CHANNELS).exp(), draw(B, CHANNELS)], 1)
    y, new_state = wkv(draw(B, T, CHANNELS), draw(B, T, CHANNELS), draw(CHANNELS), draw(CHANNELS), state)
    return y, new_state[:, 0] / new_state[:, 1]  # does not depend on the scale of the state


OP = Op(
    "wkv_average",
    {
        "reference": Backend(reference.wkv),
        "sequential": Backend(averages.wkv_by(averages.differentiable(sequential))),
        "doubling": Backend(averages.wkv_by(averages.differentiable(doubling))),
        "native": Backend(averages.wkv_by(native.forward), native.KERNEL.unavailable, lambda k: k.device.type == "cpu"),
        "triton": Backend(averages.wkv_by(gpu.forward), device.unavailable, lambda k: device.supports(k.device)),
    },
    rule=choose_backend,
    examples=(_example,),
    price=reference.price,
)
