"""The decaying sum over all earlier tokens, whose state is one matrix per head.

    S_t = diag(e^{g_t}) S_{t-1} + k_tᵀ v_t,     y_t = q_t S_t           per head; g ≤ 0

g is None (no decay), or one decay per head, per head and token, or per head, token and channel of the keys. Optional:
a weight of each token, w_t k_tᵀ v_t; a skip connection, y_t + d v_t, with one d per head; and a normalizer
z_t = q_t Σ_j e^{…} w_j k_jᵀ, which is the output for one more channel of v that is always 1.

Source: Katharopoulos et al., arXiv:2006.16236, Eq. 9-12, where g = 0; Sun et al., arXiv:2307.08621, Eq. 5-7, where g is
fixed; Peng et al., arXiv:2103.02143, where it is a gate; Yang et al., arXiv:2312.06635, and Qin et al.,
arXiv:2404.07904, where each channel of the keys has one. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor, promote_types

from seqloom.core.autocast import without_autocast
from seqloom.core.shapes import Lengths
from seqloom.ops import fla as fla_kernels
from seqloom.ops import gpu as device
from seqloom.ops.checked import check_shapes
from seqloom.ops.linear_decay import chunked, fla, gpu, native, reference, weighted
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within


@check_shapes("linear_decay")
def decay(
    q: Float[Tensor, "B G T K"],
    k: Float[Tensor, "B G T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, " H"] | Float[Tensor, "B H T"] | Float[Tensor, "B H T K"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
    *,
    weight: Float[Tensor, "B H T"] | None = None,
    skip: Float[Tensor, " H"] | None = None,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """The outputs y (B, H, T, V), in the dtype of v, and the state S (B, H, K, V) after the last token.

    q and k may have fewer heads than v: each of their G serves H/G neighboring heads of v. `log_decay` is g: None,
    (H,), (B, H, T) or (B, H, T, K), nowhere above 0 (which is not checked). `state` is S before the first token, None
    for zeros; `weight` is w, None for 1, and `skip` d, None for 0. Sums are in float32 or better, so the state is too.
    With `lengths` (B,) a row has that many tokens, then padding, and its state is that after them. Raises ValueError
    where shapes do not agree.

    Backends: `reference` token by token; `chunked`; `native` in C on a CPU, by
    chunks, or token by token where each channel has its own decay; on a GPU `triton` by chunks, for one decay per head,
    and `fla`, flash-linear-attention's kernels, for q in bfloat16 or float16, whose products are in that dtype.
    All but `fla` are differentiable twice. A later input does not change an output even in the last bit, unless it is
    infinite.
    """
    y, _, new_state = _sum_weighted(q, k, v, log_decay, state, weight, skip, lengths, ones=False)
    return y, new_state


@check_shapes("linear_decay")
def decay_with_normalizer(
    q: Float[Tensor, "B G T K"],
    k: Float[Tensor, "B G T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, " H"] | Float[Tensor, "B H T"] | Float[Tensor, "B H T K"] | None = None,
    state: Float[Tensor, "B H K V+1"] | None = None,
    *,
    weight: Float[Tensor, "B H T"] | None = None,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"], Float[Tensor, "B H K V+1"]]:
    """As `decay`, with the normalizer z (B, H, T) of each output. y is not divided by z; S has V + 1 columns."""
    y, z, new_state = _sum_weighted(q, k, v, log_decay, state, weight, None, lengths, ones=True)
    assert z is not None
    return y, z, new_state


def _sum_weighted(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
    lengths: Lengths | None,
    ones: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """y, z if there is a channel of `ones`, and the state after the last token; arguments as in `decay`."""
    B, H, T, V = v.shape
    by_channel = log_decay is not None and log_decay.ndim == 4
    G = q.shape[1]
    if G != H and (G == 0 or H % G):
        raise ValueError(f"linear_decay: {H} heads of v are no multiple of {G} heads of q and k")
    dtype = v.dtype
    wide_dtype = promote_types(dtype, promote_types(q.dtype, torch.float32))
    backend = OP.choose(q, by_channel, ones)
    chunks_in_c = backend == "native" and not by_channel
    if G < H and not chunks_in_c:
        q, k = (x.repeat_interleave(H // G, 1) for x in (q, k))
    if backend != "fla":
        q, k, v = q.to(wide_dtype), k.to(wide_dtype), v.to(wide_dtype)
    g, S, weight, skip = (None if x is None else x.to(wide_dtype) for x in (log_decay, state, weight, skip))
    if lengths is not None:  # padding adds nothing to the state and does not decay it
        real = within(lengths, T)[:, None, :, None]
        k, v = torch.where(real, k, 0.0), torch.where(real, v, 0.0)
        if g is not None:
            g = torch.where(real if by_channel else real[..., 0], g[:, None] if g.ndim == 1 else g, 0.0)
        weight = None if weight is None else torch.where(real[..., 0], weight, 0.0)
    if T == 0:
        new_state = v.new_zeros(B, H, q.shape[3], V + int(ones)) if S is None else S.clone()
        return v.to(dtype), v.new_zeros((B, H, T), dtype=dtype) if ones else None, new_state
    z: Tensor | None
    with without_autocast(q.device):
        if chunks_in_c:
            if ones and S is None:
                S = v.new_zeros(B, H, q.shape[3], V + 1)  # its columns tell C that there is a channel of ones
            y, z, new_state = native.sum_weighted(q, k, v, g, S, weight, skip)
        else:
            y, z, new_state = weighted.sum_weighted(OP[backend], q, k, v, g, S, weight, skip, ones)
    return y.to(dtype), None if z is None else z.to(dtype), new_state


def choose_backend(q: Tensor, by_channel: bool, ones: bool = False) -> str:
    """The fastest backend for these queries; `by_channel` is whether each channel of the keys has its decay.

    With a channel of `ones` the outputs are divided by a sum that may cancel to almost 0, where the products of `fla`
    in bfloat16 gave mLSTM an error of 18%.
    """
    if q.shape[2] == 1:
        return "reference"
    if q.device.type == "cpu" and not torch.compiler.is_exporting() and native.available():
        return "native"
    if fla_kernels.best(q) and not ones:
        return "fla"
    return "triton" if device.best(q.device) and not by_channel else "chunked"


def _by_token(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return decay(q, k, v, -draw(B, 4, T).square(), draw(B, 4, CHANNELS // 4, CHANNELS // 4))


def _by_channel(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    q, k, v, g = (draw(B, 4, T, CHANNELS // 4) for _ in range(4))
    return decay(q, k, v, -g.square(), draw(B, 4, CHANNELS // 4, CHANNELS // 4))


OP = Op(
    "linear_decay",
    {
        "reference": Backend(reference.decay),
        "chunked": Backend(chunked.decay, plain=True),
        "native": Backend(native.decay, native.unavailable, lambda q, *_: q.device.type == "cpu"),
        "triton": Backend(
            gpu.decay, device.unavailable, lambda q, by_channel, *_: device.supports(q.device) and not by_channel
        ),
        "fla": Backend(fla.decay, fla_kernels.unavailable, lambda q, *_: fla_kernels.supports(q)),
    },
    rule=choose_backend,
    examples=(_by_token, _by_channel),
    price=reference.price,
)
