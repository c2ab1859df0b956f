"""A projection, y = x Wᵀ + b, by the faster one of torch's two matrix libraries.

On a CPU torch multiplies float32 matrices with Intel's MKL, which on AMD's processors with AVX-512 reaches about half
of the peak performance. oneDNN, which torch contains for its compiled graphs, reaches nearly all of it (docs/log.md).
On AMD's processors without AVX-512 oneDNN is a little faster, except for the gradient of W, which is left to MKL
there. Both compute in float32.

Source: the matrix product; only the choice of the library is ours.
"""

from jaxtyping import Float
from torch import Tensor, float32, get_autocast_dtype
from torch.nn.functional import linear

from seqloom.core import cost
from seqloom.core.autocast import autocasts
from seqloom.core.graphs import capturing
from seqloom.ops.backends import forced_backend
from seqloom.ops.fused.projection import onednn, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

LEAST = 1 << 23
"""the fewest products for which oneDNN is faster in spite of its overhead"""


def project(x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None) -> Tensor:
    """(…, I) → (…, O); differentiable twice.

    Small products, captured graphs, autocast and other dtypes always use torch's default, which is not recorded as a
    choice of a backend.
    """
    if capturing():
        return linear(x, weight, bias)
    large_or_forced = x.numel() * weight.shape[0] >= LEAST or forced_backend("projection") is not None
    if not large_or_forced or not onednn.supports(x, weight, bias):
        return linear(x, weight, bias)
    y: Tensor = OP[OP.choose()](x, weight, bias)
    return y


def convert_for_products(x: Tensor) -> Tensor:
    """x in the dtype in which autocast multiplies it, for several projections of one x; x itself without autocast.

    Autocast would convert x for each of them again, and each gradient back.
    """
    if x.dtype != float32 or not autocasts(x.device):
        return x
    return x.to(get_autocast_dtype(x.device.type))


def outer(a: Float[Tensor, "R O"], b: Float[Tensor, "R I"]) -> Float[Tensor, "O I"]:
    """Σ_r a_r b_rᵀ, the gradient of a projection's weights. It is for backward passes and not differentiable."""
    backend = forced_backend("projection")
    if backend is None and a.numel() * b.shape[1] >= LEAST and onednn.outer_faster():
        backend = "onednn"
    return onednn.outer(a, b) if backend == "onednn" and onednn.supports(a, b, None) else a.T @ b


def choose_backend() -> str:
    """The faster library for large products on this processor."""
    return "onednn" if onednn.faster() else "torch"


def _example(draw: Draw, B: int, T: int) -> Tensor:
    return project(draw(B, T, CHANNELS), draw(CHANNELS, CHANNELS), draw(CHANNELS))


OP = Op(
    "projection",
    {
        "reference": Backend(reference.project),
        "torch": Backend(linear, plain=True),
        "onednn": Backend(onednn.project, onednn.unavailable),
    },
    rule=choose_backend,
    examples=(_example,),
    price=cost.linear,
)
