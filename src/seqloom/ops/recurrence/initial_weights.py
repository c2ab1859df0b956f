"""The initial matrix of a state: orthogonal, so that the state neither decays nor grows by it.

Source: Saxe et al., arXiv:1312.6120, as in the GRU of Cho et al., arXiv:1406.1078, appendix A. Nothing differs.
"""

import torch
from torch import Tensor, nn


@torch.no_grad()
def orthogonal_(weight: Tensor) -> Tensor:
    """Draws each square block of `weight` (gates · N, N) as an orthogonal matrix, in place; returns it."""
    N = weight.shape[1]
    for block in weight.split(N):
        drawn = torch.empty(N, N, dtype=torch.promote_types(weight.dtype, torch.float32), device=weight.device)
        block.copy_(nn.init.orthogonal_(drawn))
    return weight
