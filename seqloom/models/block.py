"""One layer of the Transformer: a mixer and a feed-forward network, each behind a norm and beside a residual.

    h = x + dropout(mixer(norm(x))),     y = h + dropout(ffn(norm(h)))

Source: the Extractor paper's Eq. 9, 18 and 20 (pre-layer normalisation, Xiong et al., arXiv:2002.04745). Nothing
differs.
"""

from typing import final

from torch import nn

from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import State
from seqloom.models.ffn import FFN


@final
class Block(nn.Module):
    """A layer around any mixer; it speaks the mixer's verbs."""

    def __init__(self, mixer: Mixer, width: int, dropout: float) -> None:
        super().__init__()
        dim = mixer.dim
        self.norm_1, self.mixer = nn.LayerNorm(dim, eps=1e-5), mixer
        self.norm_2, self.ffn = nn.LayerNorm(dim, eps=1e-5), FFN(dim, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        """See `Mixer.forward`."""
        return self._ffn(x + self.dropout(self.mixer(self.norm_1(x), keep)))

    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        """See `Mixer.extend`."""
        y, state = self.mixer.extend(self.norm_1(x), state, keep)
        return self._ffn(x + self.dropout(y)), state

    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """See `Mixer.step`."""
        y, state = self.mixer.step(self.norm_1(x), state, reuse=reuse)
        h = x + self.dropout(y)
        return h + self.dropout(self.ffn(self.norm_2(h))), state

    def _ffn(self, h: Stream) -> Stream:
        y: Stream = h + self.dropout(self.ffn(self.norm_2(h)))
        return y
