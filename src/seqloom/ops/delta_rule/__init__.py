"""The delta rule: a matrix state that decays, and whose value at a key is replaced by a new value.

    S_t = diag(e^{g_t}) S_{t-1} - write_tᵀ (erase_t S_{t-1}) + k_tᵀ v_t,     y_t = q_t S_t          per head; g ≤ 0

g is None (no decay), one decay per head and token, or one per head, token and channel of the keys. `erase` reads the
state *before* it decays, as in RWKV-7. In the delta rule of other papers it reads the state after the decay; their
mixers pass erase = e^{g_t} ∘ k_t, write = β_t k_t and k = β_t k_t.

Source: Schlag et al., arXiv:2102.11174, Eq. 24; Yang et al., arXiv:2406.06484, and with one decay per head
arXiv:2412.06464, Eq. 10; with one per channel Kimi Team, arXiv:2510.26692, Eq. 1, and Peng et al., RWKV-7,
arXiv:2503.14456, Eq. 17, whose state is transposed. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor, promote_types

from seqloom.core.autocast import without_autocast
from seqloom.core.shapes import Lengths
from seqloom.ops import fla as fla_kernels
from seqloom.ops.checked import check_shapes
from seqloom.ops.delta_rule import chunked, fla, native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within


@check_shapes("delta_rule")
def delta(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    *,
    erase: Float[Tensor, "B H T K"],
    write: Float[Tensor, "B H T K"] | None = None,
    log_decay: Float[Tensor, "B H T"] | Float[Tensor, "B H T K"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """The outputs y (B, H, T, V), in the dtype of v, and the state S (B, H, K, V) after the last token.

    `write` None is k. `log_decay` is g: None, (B, H, T) or (B, H, T, K), nowhere above 0 (which is not checked).
    `state` is S before the first token, None for zeros. Sums are in float32 or better, so the state is too. With
    `lengths` (B,) a row holds so many tokens, then padding, and its state is that after them. Raises ValueError where
    shapes do not agree.

    Backends: `reference` token by token; `chunked`, differentiable twice; `native` token by token in C, on a CPU; and
    `fla`, flash-linear-attention's kernels on a GPU for q in bfloat16 or float16, with products in that dtype. The
    state may grow without bound where diag(e^g) - writeᵀ erase is no contraction, as with keys longer than √(2/β).
    """
    B, H, T, K = q.shape
    dtype = v.dtype
    wide_dtype = promote_types(dtype, promote_types(q.dtype, torch.float32))
    backend = OP.choose(q)
    if backend != "fla":
        q, k, v, erase = (x.to(wide_dtype) for x in (q, k, v, erase))
    write, g, S = (None if x is None else x.to(wide_dtype) for x in (write, log_decay, state))
    if lengths is not None:  # in padding nothing is written or erased, and nothing decays
        real = within(lengths, T)[:, None, :, None]
        q, k, v, erase = (torch.where(real, x, 0.0) for x in (q, k, v, erase))
        write = None if write is None else torch.where(real, write, 0.0)
        if g is not None:
            g = torch.where(real if g.ndim == 4 else real[..., 0], g, 0.0)
    if 0 in (T, v.shape[3]):  # nothing to sum, and C would get no memory
        return v.to(dtype), v.new_zeros(B, H, K, v.shape[3]) if S is None else S.clone()
    with without_autocast(q.device):
        y, new_state = OP[backend](q, k, v, erase, write, g, S)
    return y.to(dtype), new_state


def choose_backend(q: Tensor) -> str:
    """The fastest backend for these queries. An exported graph must run where there is no native code."""
    if q.shape[2] == 1:
        return "reference"
    if q.device.type == "cpu" and not torch.compiler.is_exporting() and native.KERNEL.available():
        return "native"
    return "fla" if fla_kernels.best(q) else "chunked"


def _draw_inputs(draw: Draw, *sizes: int) -> tuple[Tensor, ...]:
    """q, k, v, erase and write of these sizes, with keys so short that the state stays small."""
    q, k, v, erase, write = (draw(*sizes) for _ in range(5))
    return q, k, v, erase / 4, write / 4


def _plain(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    q, k, v, erase, _ = _draw_inputs(draw, B, 4, T, CHANNELS // 4)
    return delta(q, k, v, erase=erase)


def _by_head(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    q, k, v, erase, _ = _draw_inputs(draw, B, 4, T, CHANNELS // 4)
    state = draw(B, 4, CHANNELS // 4, CHANNELS // 4)
    return delta(q, k, v, erase=erase, log_decay=-draw(B, 4, T).square(), state=state)


def _by_channel(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    q, k, v, erase, write = _draw_inputs(draw, B, 4, T, CHANNELS // 4)
    g = -draw(B, 4, T, CHANNELS // 4).square()
    state = draw(B, 4, CHANNELS // 4, CHANNELS // 4)
    return delta(q, k, v, erase=erase, write=write, log_decay=g, state=state)


OP = Op(
    "delta_rule",
    {
        "reference": Backend(reference.delta),
        "chunked": Backend(chunked.delta, plain=True),
        "native": Backend(native.delta, native.KERNEL.unavailable, lambda q: q.device.type == "cpu"),
        "fla": Backend(fla.delta, fla_kernels.unavailable, fla_kernels.supports),
    },
    rule=choose_backend,
    examples=(_plain, _by_head, _by_channel),
    price=reference.price,
)
