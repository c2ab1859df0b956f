"""The layer that a token should end after: the value of a layer's prediction less the price of the layers up to it.

    v_tn = ln p_n(y_t)   or   1 if y_t is the likeliest by p_n, else 0             with `likelihood`, with `correctness`
    sequence:  n*  = argmax_n Σ_t v_tn - λ n
    token:     n*_t = argmax_n Σ_t' κ(t, t') v_t'n - λ n,       κ(t, t') = e^{-(t - t')² / σ}

p_n is what layer n = 1 … L predicts, y_t the token that follows token t. Of equal values the first layer is chosen.
With a small σ the choice for a token depends on that token alone; with a large one all tokens of a row get the same
layer. Other tokens count because later ones attend to what earlier ones have computed.

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 4. Seed 002 prints κ without its sign.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sequence_oracle(values: Float[Tensor, "B T L"], penalty: float) -> Int[Tensor, " B"]:
    """n* of each row, from 1, given v and λ."""
    return _best(values.sum(1), penalty)


def token_oracle(values: Float[Tensor, "B T L"], penalty: float, width: float) -> Int[Tensor, "B T"]:
    """n* of each token, from 1, given v, λ and σ."""
    return _best(kernel(values.shape[1], width).to(values) @ values, penalty)


def kernel(T: int, width: float) -> Float[Tensor, "T T"]:
    """κ of all pairs of T tokens."""
    time = torch.arange(T, dtype=torch.float64)
    return torch.exp(-((time[:, None] - time) ** 2) / width)


def _best(values: Tensor, penalty: float) -> Tensor:
    """The layer, from 1, with the largest v - λ n, for v (…, L)."""
    costs = penalty * torch.arange(1, values.shape[-1] + 1, dtype=values.dtype, device=values.device)
    return (values - costs).argmax(-1) + 1  # the first of equal values
