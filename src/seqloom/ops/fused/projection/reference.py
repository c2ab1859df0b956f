"""The reference of the projection: torch's own product."""

from torch import Tensor


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b: (…, I) → (…, O)."""
    y = x @ weight.T
    return y if bias is None else y + bias
