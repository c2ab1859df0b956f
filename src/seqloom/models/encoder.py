"""An encoder around any bidirectional mixers: every position is read from all others; `transformer` has the equations.

Source: Devlin et al., BERT, arXiv:1810.04805. What differs: the layers are the Extractor paper's (norm before each
sublayer, untied output, N(0, 0.01²)), there are no segments, and the head is one linear layer.
"""

from typing import ClassVar, Literal, final

from pydantic import model_validator
from typing_extensions import override

from seqloom.core.model import ModelTraits
from seqloom.models.config import TransformerConfig
from seqloom.models.transformer import Transformer


@final
class EncoderConfig(TransformerConfig):
    """The sizes of an encoder and the bidirectional mixers of its layers."""

    kind: Literal["encoder"] = "encoder"
    causal: ClassVar = False

    @model_validator(mode="after")
    def _both_directions(self) -> "EncoderConfig":
        if self.channel == "channel_mix":
            raise ValueError(
                "channel=channel_mix is causal, and an encoder reads in both directions: choose ffn or none"
            )
        return self

    @override
    def build(self, layers: int | None = None) -> "Encoder":
        return Encoder(self, layers)


@final
class Encoder(Transformer):
    """Predicts the token of every position from the whole row."""

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, self.longest)
