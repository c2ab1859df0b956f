"""The initial weights of a selective scan: S4D-real, steps from short to long, and a skip of 1.

    A_n = -n,   softplus(bias) log-uniform from `shortest` to `longest`, at least 1e-4,   skip = 1
    W_Δ (D, R) uniform in ±R^(-1/2)                                             the matrix from R numbers to Δ

Source: Gu & Dao, Mamba, arXiv:2312.00752, section 3.6, and the authors' code. Nothing differs.
"""

import math

import torch
from torch import Tensor
from torch.nn import init

LEAST_STEP = 1e-4


@torch.no_grad()
def initialize_(
    log_rate: Tensor, bias: Tensor, skip: Tensor, w_delta: Tensor, shortest: float = 1e-3, longest: float = 0.1
) -> None:
    """Fills log_rate (D, N), bias and skip (D,) and W_Δ (D, R)."""
    n = torch.arange(1, log_rate.shape[1] + 1, device=log_rate.device)
    log_rate.copy_(n.log().expand_as(log_rate))
    initialize_steps_(bias, shortest, longest)
    init.ones_(skip)
    bound = w_delta.shape[1] ** -0.5
    init.uniform_(w_delta, -bound, bound)


@torch.no_grad()
def initialize_steps_(bias: Tensor, shortest: float = 1e-3, longest: float = 0.1) -> None:
    """Fills bias so that its softplus is log-uniform from `shortest` to `longest`."""
    uniform = torch.rand(bias.shape, dtype=torch.float64, device=bias.device)
    steps = torch.exp(math.log(shortest) + uniform * (math.log(longest) - math.log(shortest))).clamp(min=LEAST_STEP)
    bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # the inverse of softplus
