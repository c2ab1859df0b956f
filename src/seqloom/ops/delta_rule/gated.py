"""The delta rule from the output of a mixer's convolution: a token's value replaces the one that its key reads.

    (q, k, v) = x                               H heads of q and k of width K, G of v; a head of q, k serves G/H of v
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t

On a GPU flash-linear-attention's kernels take k, β and g; every other backend takes `delta_inputs`.

Source: Yang et al., arXiv:2406.06484, arXiv:2412.06464; Kimi Team, arXiv:2510.26692. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import gpu
from seqloom.ops.delta_rule import OP, delta, fla
from seqloom.ops.delta_rule.inputs import delta_inputs, require_sizes
from seqloom.ops.past.pack import within


def gated_delta(
    x: Stream,
    g: Tensor | None,
    beta: Float[Tensor, "B T G"],
    state: Float[Tensor, "B G K V"] | None,
    *,
    heads: int,
    K: int,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B G T V"], Float[Tensor, "B G K V"]]:
    """The outputs y and the state S after the last token of x (B, T, 2 H K + G V), for H = `heads`.

    g is None, (B, T, G) or (B, T, G, K). With `lengths` (B,) a row holds so many tokens, then padding. ValueError where
    sizes do not agree.
    """
    decays = g[..., None] if g is not None and g.ndim == 3 else g  # (B, T, G, 1 or K)
    if gpu.supports(x.device) and x.numel() > 0 and OP.choose(x.detach()[:, None, :, :K]) == "fla":
        require_sizes(x, decays, beta, heads, K)
        if lengths is not None:  # in padding nothing is written or erased, and nothing decays
            real = within(lengths, x.shape[1])[..., None]
            x = torch.where(real, x, 0.0)
            g = None if g is None else torch.where(real if g.ndim == 3 else real[..., None], g, 0.0)
        with torch.autocast(x.device.type, enabled=False):
            return fla.gated_delta(x, g, beta, state, heads, K)
    left = None if decays is None else decays.exp()
    q, beta_k, v, erase = (tensor.transpose(1, 2) for tensor in delta_inputs(x, left, beta, heads, K))
    log_decay = None if g is None else g.transpose(1, 2)
    return delta(q, k=beta_k, v=v, erase=erase, log_decay=log_decay, state=state, lengths=lengths)
