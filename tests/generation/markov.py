"""A model whose next token depends on the last alone, and a test of counts against a law."""

from typing import Any, Literal, final

import torch
from scipy.special import chdtrc
from torch import Tensor, nn

from seqloom.core.cost import Cost
from seqloom.core.model import Model, ModelTraits
from seqloom.core.model_config import ModelConfig
from seqloom.core.state import ModelState, State


@final
class MarkovConfig(ModelConfig):
    """The settings of a table."""

    kind: Literal["markov"] = "markov"

    def build(self, layers: int | None = None) -> "Markov":
        return Markov(0, self.vocab)


@final
class Markov(Model):
    """Logits from a table (W, W) by the last token; its state is the number of tokens."""

    def __init__(self, seed: int, vocab: int = 4, scale: float = 1.0) -> None:
        super().__init__()
        self.table = nn.Parameter(scale * torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(seed)))
        self.config = MarkovConfig(vocab=vocab)

    @property
    def traits(self) -> ModelTraits:
        return ModelTraits(True, True, None)

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        return self.table[ids]

    def logits(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return x

    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        return ModelState((), State({"length": torch.zeros(batch, dtype=torch.long)}, 0, True))

    def read(self, ids: Tensor, state: ModelState, keep: Tensor | None = None) -> tuple[Tensor, ModelState]:
        return self.table[ids], state

    def step(self, ids: Tensor, state: ModelState, *, reuse: bool = False) -> tuple[Tensor, ModelState]:
        return self.table[ids], state

    def cost(self, T: int, per: Any = "sequence", outputs: int | None = None) -> Cost:
        return Cost()


def chance(counts: Any, law: Any) -> float:
    """That χ² is as large as for these counts or larger, under a law of as many outcomes."""
    expected = law * counts.sum()
    return float(chdtrc(len(counts) - 1, ((counts - expected) ** 2 / expected).sum()))
