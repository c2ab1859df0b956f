"""The decaying sum with weights of tokens, a normalizer and a skip, in torch around any backend of the sum.

    S_t = e^{g_t} S_{t-1} + w_t k_tᵀ [v_t, 1],   [y_t, z_t] = q_t S_t,   y_t + d ∘ v_t

The C code of `native` computes all of it in one pass, while the data is in the cache. `quotient` divides the sums by
their normalizer, with gradients in few passes over memory.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import is_transformed

Run: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor]]
"""the sum without weights: run(q, k, v, g, state) → y and S"""


def sum_weighted(
    run: Run,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
    ones: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """y (B, H, T, V), z (B, H, T) with `ones`, and S; weights w (B, H, T), skip d (H,), each None for nothing."""
    values = v if weight is None else v * weight[..., None]
    if ones:
        last = torch.ones_like(v[..., :1]) if weight is None else weight[..., None]
        values = torch.cat([values, last.to(values.dtype)], -1)
    y, new_state = run(q, k, values, g, state)
    z = None
    if ones:
        y, z = parts(y)
    return y if skip is None else y + skip[:, None, None] * v, z, new_state


def parts(sums: Tensor) -> tuple[Tensor, Tensor]:
    """(…, V + 1) → (…, V) and the last channel (…). The gradient of each slice would be a whole tensor of zeros."""
    if is_transformed() or not torch.is_grad_enabled():
        return sums[..., :-1], sums[..., -1]
    s, z = _LastChannel.apply(sums)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return s, z


class _LastChannel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> tuple[Tensor, Tensor]:
        return sums[..., :-1], sums[..., -1]

    @staticmethod
    def backward(ctx: Any, ds: Tensor, dz: Tensor) -> Tensor:
        return torch.cat([ds, dz[..., None]], -1)


def quotient(s: Float[Tensor, "*rows V"], z: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows V"]:
    """y = s / z, one z for all channels of s. Gradients: ds = dy / z, dz = -Σ ds y; torch's would divide twice more."""
    if is_transformed() or not torch.is_grad_enabled():
        return s / z[..., None]
    y: Tensor = _Quotient.apply(s, z)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return y


class _Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, z: Tensor) -> Tensor:
        y = s / z[..., None]
        ctx.save_for_backward(y, z)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        y, z = ctx.saved_tensors
        ds = dy / z[..., None]
        return ds, -(ds * y).sum(-1)
