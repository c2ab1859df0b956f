"""Identity: attention of each token to itself only, a baseline without mixing.

    y_t = x_t W_v W_out                W_v and W_out as in attention; no biases

Source: ours: attention (Vaswani et al., arXiv:1706.03762) whose weights are the identity matrix. Nothing differs.
"""

from typing import ClassVar, Literal, final

from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class Identity(PackedMixer):
    """Two projections of each token over `dim` channels. The state counts tokens and holds nothing else."""

    traits = TRAITS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(2))

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        return self.w_out(self.w_v(x)), {}


@register
class IdentityConfig(MixerConfig):
    """No mixing: each token reads itself alone. The context only sizes the model's positions."""

    kind: Literal["identity"] = "identity"
    traits: ClassVar = TRAITS

    @override
    def make(self, layer: Layer) -> Identity:
        return Identity(layer.dim)
