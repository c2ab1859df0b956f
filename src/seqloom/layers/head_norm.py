"""A module for the norm of heads with its gain; the equations and the gates are those of `gated_norm`."""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.ops.fused.gated_norm import Gate, normalize
from seqloom.ops.fused.gated_norm.reference import price


@final
class HeadNorm(nn.RMSNorm):
    """A norm over the `width` channels of each of `heads` heads."""

    def __init__(self, heads: int, width: int, gate: Gate = "none", eps: float = 1e-5) -> None:
        super().__init__((heads, width) if gate == "silu first" else width, eps=eps)
        self.heads, self.width, self.gate = heads, width, gate

    @property
    def epsilon(self) -> float:
        """ε, which torch's class may lack."""
        assert self.eps is not None
        return self.eps

    @override
    def forward(self, y: Float[Tensor, "B H T V"], z: Float[Tensor, "B T D"] | None = None) -> Float[Tensor, "B T D"]:
        """The outputs of heads, normalized and gated by z, as one stream: D = H V."""
        return normalize(y.transpose(1, 2), z, self.weight, self.epsilon, self.gate)

    def price(self, span: Span) -> Cost:
        """The operations and the critical path for the tokens of `span` in one row."""
        return price(span.rows, self.heads, self.width, self.gate != "none")
