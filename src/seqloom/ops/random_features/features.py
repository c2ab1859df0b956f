"""The feature maps of x (B, H, T, K) along directions w (H, R, K), by the equations of `seqloom.ops.random_features`.

Exponents are differences of large numbers, so they are computed in float32 or better whatever the dtype of x, also
under autocast. Features include the factor 1/√R.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import relu as positive_part

from seqloom.core.autocast import without_autocast

EPSILON = 1e-3


def softmax_log(x: Float[Tensor, "B H T K"], w: Float[Tensor, "H R K"]) -> Float[Tensor, "B H T F"]:
    """The logarithm of the softmax kernel's positive features, F = R."""
    x = exact(x)
    return _project_on(x, w) + _log_scale(x, w.shape[1])


def hyperbolic_log(x: Float[Tensor, "B H T K"], w: Float[Tensor, "H R K"]) -> Float[Tensor, "B H T F"]:
    """The logarithm of the softmax kernel's hyperbolic features: each direction and its opposite, F = 2R."""
    x = exact(x)
    a = _project_on(x, w)
    return torch.cat([a, -a], -1) + _log_scale(x, 2 * w.shape[1])


LOGARITHMS = {"softmax": softmax_log, "hyperbolic": hyperbolic_log}
"""the kernels whose features are exponentials"""


def relu(x: Float[Tensor, "B H T K"], w: Float[Tensor, "H R K"]) -> Float[Tensor, "B H T F"]:
    """The features of the ReLU kernel, F = R, none below 1e-3. For ε = 0 their mean product is the arc-cosine kernel.

    Source: Choromanski et al., arXiv:2009.14794, appendix A (Performer-ReLU); ε is that of its authors' code.
    """
    return positive_part(_project_on(exact(x) / math.sqrt(w.shape[1]), w)) + EPSILON


def trigonometric(x: Float[Tensor, "B H T K"], w: Float[Tensor, "H R K"]) -> Float[Tensor, "B H T F"]:
    """The sines, then the cosines along each direction, F = 2R: every vector of features has length 1."""
    a = _project_on(exact(x), w)
    return torch.cat([a.sin(), a.cos()], -1) / math.sqrt(w.shape[1])


def unit(x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B H T K"]:
    """x / √(|x|² + 1e-6): vectors of length 1, except very short ones."""
    x = exact(x)
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def exact(x: Tensor) -> Tensor:
    """x in float32, or unchanged if its dtype is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _project_on(x: Tensor, w: Tensor) -> Tensor:
    """w·x for each direction w: (B, H, T, R)."""
    with without_autocast(x.device):
        return x @ w.to(x.dtype).mT


def _log_scale(x: Tensor, features: int) -> Tensor:
    """-|x|²/2 - ln(features)/2, which is added to the exponents w·x: (B, H, T, 1)."""
    return x.square().sum(-1, keepdim=True) / -2 - math.log(features) / 2
