"""A classifier of one text by filters over its words, each with one maximum over the whole text (TextCNN).

    x_t = [E w_t ; F w_t]                          two channels: E is trained, F stays as it began
    c_i^h = max(0, W_h [x_i; …; x_{i+h-1}] + b_h)        i = 1 … max(1, n - h + 1), for each width h; M maps
    z = dropout([max_i c_i^3 ; max_i c_i^4 ; max_i c_i^5])
    logits = V z + b,         after each update v ← 3 v / ‖v‖ for each row v of V with ‖v‖ > 3

n tokens are kept in a row, `<eos>` text `<eos>`; x is 0 beyond them, which only a text shorter than a filter reads. So
padding changes nothing.

Source: Kim, arXiv:1408.5882, sections 2 and 3.1: Eq. 2 to 4, the multichannel form, dropout 0.5 and the norm of 3. What
differs: a filter has weights of its own for each channel, as of colours in a picture; `<eos>` stands at both ends, and
no window reads beyond them; training is that of all models here, not Adadelta.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import count
from seqloom.core.cost import Cost, Per, linear, softmax
from seqloom.core.extras import Extras
from seqloom.core.model import Model, ModelTraits
from seqloom.core.model_config import ModelConfig
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.layers.linear import Linear
from seqloom.models import arguments
from seqloom.models.dropout import Dropout
from seqloom.ops.past.pack import pack, within

RANGE = 0.25
"""initial word vectors are uniform in [-RANGE, RANGE], as in Kim's code, with about the variance of word2vec's
vectors"""


@final
class TextCNNConfig(ModelConfig):
    """The filters of a TextCNN and its labels."""

    kind: Literal["textcnn"] = "textcnn"
    dim: int = Field(300, ge=1, le=2**17, description="channels of a word's vector")
    widths: Annotated[tuple[int, ...], Field(strict=False)] = Field(
        (3, 4, 5), min_length=1, max_length=64, description="words that a filter reads, e.g. [3, 4, 5]"
    )
    maps: int = Field(100, ge=1, le=2**16, description="filters of each width")
    channels: Literal["both", "tuned", "static"] = Field(
        "both",
        description="word vectors: tuned (trained), static (fixed at their initial values, see training.vectors), "
        "or both, one channel of each",
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout of the maxima")
    most: float | None = Field(
        3.0,
        gt=0,
        description="largest Euclidean norm of each label's weights, enforced after each update; null: no limit",
    )
    labels: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), max_length=2**16, description="names of the labels; set from the data"
    )
    texts: Literal[1, 2] = Field(1, description="texts per example; set from the data, which must have one")
    causal: ClassVar = False
    objective: ClassVar = "labels"

    @model_validator(mode="after")
    def _each_once(self) -> "TextCNNConfig":
        if min(self.widths) < 1 or len(set(self.widths)) < len(self.widths):
            raise ValueError(f"widths {list(self.widths)} are different numbers of words, each at least 1")
        if max(self.widths) > self.context:
            raise ValueError(f"a filter of width {max(self.widths)} is wider than context={self.context}")
        return self

    @override
    def build(self, layers: int | None = None) -> "TextCNN":
        if self.texts != 1:
            raise ValueError("a textcnn reads one text, and the examples have two: choose model.kind=classifier")
        return TextCNN(self)


@final
class TextCNN(Model):
    """Gives each row the logits of its label."""

    config: TextCNNConfig
    static: Tensor | None

    def __init__(self, config: TextCNNConfig) -> None:
        super().__init__()
        self.config = config
        vectors = torch.empty(config.vocab, config.dim).uniform_(-RANGE, RANGE)
        self.token = None if config.channels == "static" else nn.Embedding(config.vocab, config.dim, _weight=vectors)
        self.register_buffer("static", None if config.channels == "tuned" else vectors.clone())
        inputs = config.dim * (2 if config.channels == "both" else 1)
        self.filters = nn.ModuleList(nn.Conv1d(inputs, config.maps, width) for width in config.widths)
        self.dropout = Dropout(config.dropout)
        self.head = Linear(config.maps * len(config.widths), max(len(config.labels), 1))

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, None)

    @override
    def forward(
        self, ids: Ids, keep: Keep | None = None, second: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B L"]:
        """Logits of the L labels for each row of ids (B, T)."""
        return self.classify(ids, keep, second)[0]

    def classify(
        self, ids: Ids, keep: Keep | None = None, second: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B L"], Extras]:
        """`forward`, and no extras. ValueError where `second` is given, which is of two texts."""
        if second is not None:
            raise ValueError("a textcnn reads one text per row: leave second out")
        arguments.check_ids(ids, 2, self.device)
        arguments.check_range(ids, self.config.vocab)
        x = self.vectors(ids)
        if keep is None:
            n = torch.full((len(ids),), ids.shape[1], device=ids.device)
        else:
            x, packing = pack(x, keep)
            n = packing.lengths
        return self.head(self.dropout(self.pool(x, n))), Extras()

    def vectors(self, ids: Ids) -> Stream:
        """The channels of each token side by side (B, T, C D)."""
        channels = []
        if self.token is not None:
            channels.append(arguments.embed_ids(self.token, ids))
        if self.static is not None:
            channels.append(self.static[ids])
        return torch.cat(channels, -1)

    def pool(self, x: Stream, n: Int[Tensor, " B"]) -> Float[Tensor, "B F"]:
        """The largest value of each map in rows of n tokens; x is 0 beyond them."""
        missing = max(self.config.widths) - x.shape[1]
        x = nn.functional.pad(x, (0, 0, 0, max(missing, 0))).transpose(1, 2)
        largest = []
        for h, layer in zip(self.config.widths, self.filters, strict=True):
            c = torch.relu(layer(x))
            in_row = within((n - h + 1).clamp(min=1), c.shape[2])  # the windows that begin and end in the row
            largest.append(torch.where(in_row[:, None], c, 0.0).amax(2))
        return torch.cat(largest, 1)

    @override
    @torch.no_grad()
    def take_vectors(self, vectors: Float[Tensor, "W D"]) -> None:
        if self.token is not None:
            self.token.weight.copy_(vectors)
        if self.static is not None:
            self.static.copy_(vectors)

    @override
    @torch.no_grad()
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Scales down the weights of each label whose norm exceeds `most`."""
        if self.config.most is not None:
            norms = self.head.weight.norm(dim=1, keepdim=True)
            self.head.weight.mul_((self.config.most / norms).clamp(max=1.0))

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one row of T tokens, whose label is predicted; static vectors are no parameters."""
        count("T", T, least=1)
        if per != "sequence":
            raise ValueError("a textcnn reads whole rows: it has no price of a token")
        config = self.config
        L = max(len(config.labels), 1)
        M = config.maps
        inputs = config.dim * (2 if config.channels == "both" else 1)
        total = Cost(params=config.vocab * config.dim if config.channels != "static" else 0)
        for h in config.widths:
            windows = max(T - h + 1, 1)
            filters = linear(windows, inputs * min(T, h), M, bias=True)
            total += replace(filters, params=(inputs * h + 1) * M, path=())
            total += Cost(other=(2 * windows - 1) * M)  # ReLU, and the maximum over the windows
        total += Cost(path=("multiplication", "cumulation", "addition", "other", "other"))
        return total + linear(1, M * len(config.widths), L, bias=True) + softmax(1, L)
