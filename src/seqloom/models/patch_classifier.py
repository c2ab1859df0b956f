"""A classifier of pictures by their patches, around any bidirectional mixers; `transformer` has its layers' equations.

    x_t = W (v_t / 127.5 - 1) + b + position                                    v_t: the numbers 0 … 255 of patch t
    z = mean of norm(layers(x)) over the T patches,   logits = W_z z + b_z                       one for each label

The patches are those of `data.pictures.patches`; b is the one embedding of the model.

Source: Dosovitskiy et al., ViT, arXiv:2010.11929, Eq. 1 to 4. What differs: the mean over patches, as in MLP-Mixer
(Tolstikhin et al., arXiv:2105.01601, section 2), in place of a class token.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.arguments import count
from seqloom.core.cost import Cost, Per, linear
from seqloom.core.extras import Extras
from seqloom.core.shapes import Ids, Keep
from seqloom.models.classifier import label_cost, mean_of_kept
from seqloom.models.config import BidirectionalConfig
from seqloom.models.cost import layers_cost
from seqloom.models.number_reader import NumberReader

if TYPE_CHECKING:
    from seqloom.data.pictures.patches import PatchCorpus

HALF = 127.5
"""half of the largest number of a pixel"""


@final
class PatchClassifierConfig(BidirectionalConfig):
    """The sizes of a classifier of pictures, the bidirectional mixers of its layers, and its labels."""

    kind: Literal["patch_classifier"] = "patch_classifier"
    vocab: int = Field(1, ge=1, le=2**24, description="the one embedding is the bias of the first matrix; set to 1")
    context: int = Field(16, ge=1, le=2**24, description="patches of a picture; set from the data")
    embed_scale: Literal[False] = Field(False, description="only for embeddings of words")
    tie: Literal[False] = Field(False, description="only for an output over the vocabulary")
    patch: int = Field(4, ge=1, le=64, description="pixels of a side of a patch, which divides the sides of a picture")
    shape: Annotated[tuple[int, int, int], Field(strict=False)] = Field(
        (16, 16, 1), description="height, width and numbers of a pixel of a picture; set from the data"
    )
    labels: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), max_length=2**16, description="names of the labels; set from the data"
    )
    objective: ClassVar = "patches"

    @property
    @override
    def outputs(self) -> int:
        return max(len(self.labels), 1)

    @property
    def inputs(self) -> int:
        """The numbers of a patch."""
        return self.patch * self.patch * self.shape[2]

    def with_pictures(self, corpus: "PatchCorpus") -> "PatchClassifierConfig":
        """The settings with what follows from the pictures. ValueError where one was given that does not."""
        found = {"context": corpus.train.values.shape[1], "shape": corpus.shape, "labels": corpus.names}
        for name in sorted(found.keys() & self.model_fields_set):
            if getattr(self, name) != found[name]:
                raise ValueError(f"model.{name} follows from the pictures, where it is {found[name]}: leave it out")
        return self.model_copy(update=found)

    @override
    def build(self, layers: int | None = None) -> "PatchClassifier":
        return PatchClassifier(self, layers)


@final
class PatchClassifier(NumberReader):
    """Gives each picture the logits of its label."""

    config: PatchClassifierConfig

    def __init__(self, config: PatchClassifierConfig, layers: int | None = None) -> None:
        super().__init__(config, config.inputs, layers)

    @override
    def forward(
        self, ids: Ids, keep: Keep | None = None, values: Float[Tensor, "B T V"] | None = None
    ) -> Float[Tensor, "B L"]:
        """Logits of the L labels for the numbers 0 … 255 of the patches of each picture."""
        return self.classify(ids, keep, values)[0]

    def classify(
        self, ids: Ids, keep: Keep | None = None, values: Float[Tensor, "B T V"] | None = None
    ) -> tuple[Float[Tensor, "B L"], Extras]:
        """`forward`, and the layers' auxiliary losses and statistics. ValueError for other values, or none."""
        x, extras = self.features_with_extras(ids, keep, self.embed_values(ids, keep, values))
        return self.head(mean_of_kept(self.norm(x), keep)), extras

    @override
    def scale(self, values: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
        """v / 127.5 - 1, from -1 to 1."""
        return values / HALF - 1

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one picture of T patches, whose label is predicted."""
        count("T", T, least=1)
        if per != "sequence":
            raise ValueError("a patch_classifier reads whole pictures: it has no price of a patch")
        V, D = self.config.inputs, self.config.dim
        scaled = Cost(add=T * V, div=T * V, path=("division", "addition"))
        embedded = linear(T, V, D, bias=False) + Cost(add=T * D, path=("addition",))
        layers = [self.blocks[self.config.like(layer)] for layer in range(self.config.depth)]
        read = scaled + embedded + layers_cost(self.config, layers, T, per)
        return read + label_cost(self.config, T, mean=True)
