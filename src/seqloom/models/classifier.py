"""A classifier of one text or of two around any bidirectional mixers; `transformer` has the equations of its layers.

    x_t = token + position [+ segment of its text]                  rows: <eos> text <eos> [second text <eos>]
    h = norm(layers(x)),   z = mean of the h_t of kept tokens, or h_1 with pool=first
    logits = W z + b                                                                    one for each label

Source: Devlin et al., BERT, arXiv:1810.04805, sections 3 and 4, whose [CLS] and [SEP] are `<eos>` here. What differs:
the mean by default in place of the first token, and no further layer with tanh before W.
"""

from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import count
from seqloom.core.cost import Cost, Per, linear, softmax
from seqloom.core.extras import Extras
from seqloom.core.model import ModelTraits
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.models.config import BidirectionalConfig
from seqloom.models.cost import layers_cost, norm_cost
from seqloom.models.transformer import Transformer


@final
class ClassifierConfig(BidirectionalConfig):
    """The sizes of a classifier, the bidirectional mixers of its layers, and its labels."""

    kind: Literal["classifier"] = "classifier"
    labels: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), max_length=2**16, description="names of the labels; set from the data"
    )
    texts: Literal[1, 2] = Field(1, description="texts per example; set from the data")
    pool: Literal["mean", "first"] = Field(
        "mean", description="pooling: the mean over all tokens, or the first token, <eos> (BERT's [CLS])"
    )
    objective: ClassVar = "labels"

    @property
    @override
    def outputs(self) -> int:
        return max(len(self.labels), 1)

    @model_validator(mode="after")
    def _own_output(self) -> "ClassifierConfig":
        if self.tie:
            raise ValueError("tie=true is of an output with an entry for each token, and a classifier's has labels")
        return self

    @override
    def build(self, layers: int | None = None) -> "Classifier":
        return Classifier(self, layers)


@final
class Classifier(Transformer):
    """Gives each row the logits of its label."""

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        self.segment = nn.Embedding(2, config.dim) if config.texts == 2 else None
        """what is added to the tokens of the first text and of the second"""
        if self.segment is not None and not self.segment.weight.is_meta:
            nn.init.normal_(self.segment.weight, std=config.std)

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, self.longest)

    @override
    def forward(
        self, ids: Ids, keep: Keep | None = None, second: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B L"]:
        """Logits of the L labels for each row of ids (B, T)."""
        return self.classify(ids, keep, second)[0]

    def classify(
        self, ids: Ids, keep: Keep | None = None, second: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B L"], Extras]:
        """`forward`, and the layers' auxiliary losses and statistics.

        `second` (B, T) is 0 at tokens of the first text and 1 at those of the second. ValueError where it is missing
        in a model of two texts, or given to one of one.
        """
        if (second is None) != (self.segment is None):
            texts = self.config.texts
            raise ValueError(f"the model reads {texts} text{'s' * (texts > 1)} per row: give second for two, else not")
        added = None if self.segment is None or second is None else self.segment(second)
        x, extras = self.features_with_extras(ids, keep, added)
        return self.head(self.pool(x, keep)), extras

    def pool(self, x: Stream, keep: Keep | None) -> Float[Tensor, "B D"]:
        """The vector z of each row, given the stream x (B, T, D) after the last layer."""
        h: Tensor = self.norm(x)
        return h[:, 0] if self.config.pool == "first" else mean_of_kept(h, keep)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one row of T tokens, whose label is predicted."""
        count("T", T, least=1)
        if per != "sequence":
            raise ValueError("a classifier reads whole rows: it has no price of a token")
        D = self.config.dim
        layers = [self.blocks[self.config.like(layer)] for layer in range(self.config.depth)]
        total = layers_cost(self.config, layers, T, per)
        if self.segment is not None:
            total += Cost(add=T * D, params=2 * D, path=("addition",))
        return total + label_cost(self.config, T, mean=self.config.pool == "mean")


def mean_of_kept(h: Stream, keep: Keep | None) -> Float[Tensor, "B D"]:
    """The mean over the kept tokens of each row of h (B, T, D)."""
    if keep is None:
        return h.mean(1)
    return torch.where(keep[:, :, None], h, 0.0).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


def label_cost(config: BidirectionalConfig, T: int, *, mean: bool) -> Cost:
    """The price of a label, given the stream of T tokens after the layers: norm, the mean if so, output, softmax."""
    D, L = config.dim, config.outputs
    total = norm_cost(T, D, config.norm) if config.has_final_norm else Cost()
    if mean:
        total += Cost(add=(T - 1) * D, div=D, path=("cumulation", "division"))
    return total + linear(1, D, L, bias=config.head_bias) + softmax(1, L)
