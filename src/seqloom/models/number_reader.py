"""A model that reads numbers in place of tokens: one matrix embeds them, and its one embedding is that matrix's bias.

    x_t = W scale(v_t) + b                          v_t: the V numbers at position t; `scale` is the model's own

Source: Informer (arXiv:2012.07436), S4 (arXiv:2111.00396) and ViT (arXiv:2010.11929, Eq. 1) read numbers by one matrix.
"""

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from seqloom.core.arguments import describe_value
from seqloom.core.model import ModelTraits
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.layers.linear import Linear
from seqloom.models.config import TransformerConfig
from seqloom.models.transformer import Transformer


class NumberReader(Transformer, ABC):
    """Reads `inputs` numbers at each position, and writes no text.

    The ids of its verbs are all 0, and say how many positions there are.
    """

    def __init__(self, config: TransformerConfig, inputs: int, layers: int | None = None) -> None:
        super().__init__(config, layers)
        self.of_values = Linear(inputs, config.dim, bias=False)
        if not self.token.weight.is_meta:
            self.reset()

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams text."""
        return ModelTraits(False, False, self.longest)

    @abstractmethod
    def scale(self, values: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
        """The numbers as the matrix reads them, about 0 and of about one size."""

    def embed_values(self, ids: Ids, keep: Keep | None, values: Float[Tensor, "B T V"] | None) -> Stream:
        """W scale(v) (B, T, D); 0 at dropped positions. ValueError for no values, and for those of another shape."""
        if values is None:
            raise ValueError(f"a model of kind {self.config.kind} reads numbers: give values")
        shape = (*ids.shape, self.of_values.in_features)
        if not isinstance(values, Tensor) or not values.is_floating_point() or values.shape != shape:
            raise ValueError(f"values are numbers of shape {shape}, not {describe_value(values)}")
        scaled = self.scale(values)
        if keep is not None:
            scaled = torch.where(keep[..., None], scaled, 0.0)
        x: Tensor = self.of_values(scaled.to(self.dtype))
        return x

    @override
    def exits(self, ids: Ids, keep: Keep | None = None) -> NoReturn:
        self._lacks("leave layers out")

    @override
    def loss_with_extras(self, ids: Ids, targets: Ids, keep: Keep | None = None, **read: Any) -> NoReturn:
        self._lacks("predict tokens")
