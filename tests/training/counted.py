"""A model that counts, for tests: how often each token occurs in the text, by the last complete pass.

p(token) = (n_token + 1) / (N + W)                 whatever came before; W entries of the vocabulary
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.cost import Cost, Per
from seqloom.core.model import Model, ModelTraits
from seqloom.core.model_config import ModelConfig
from seqloom.core.shapes import Ids, Keep, Logits
from seqloom.models.kinds import KINDS

CHANGES = ("model={kind: unigram, context: 16}", "data.disjoint=true", "training.batch=8")


@final
class UnigramConfig(ModelConfig):
    """A unigram; `passes` ends its training."""

    kind: Literal["unigram"] = "unigram"
    passes: int = 1
    fits: ClassVar = True
    grows: ClassVar = True

    @override
    def build(self, layers: int | None = None) -> "Unigram":
        return Unigram(self)


@final
class Unigram(Model):
    """Counts of tokens; `seen` has as many entries as tokens were seen so far, so that its size follows from a run."""

    counts: Tensor
    collected: Tensor
    seen: Tensor
    passed: Tensor

    def __init__(self, config: UnigramConfig) -> None:
        super().__init__()
        self.config = config
        for name in ("counts", "collected"):
            self.register_buffer(name, torch.zeros(config.vocab, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("passed", torch.zeros((), dtype=torch.int64))

    @property
    @override
    def traits(self) -> ModelTraits:
        return ModelTraits(True, False, None)

    @override
    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        probabilities = (self.counts + 1).double() / (self.counts.sum() + len(self.counts))
        return probabilities.log().expand(*ids.shape, -1)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        return Cost(params=len(self.counts))

    @override
    def fit(self, batch: Mapping[str, Tensor]) -> Tensor:
        targets = batch["ids"][:, 1:].flatten()
        loss = cross_entropy(self(targets[None])[0], targets)
        self.collected += torch.bincount(targets, minlength=len(self.counts))
        self.seen = torch.cat([self.seen, targets[:1]])
        return loss

    @override
    def end_pass(self) -> bool:
        self.counts = self.collected.clone()
        self.collected.zero_()
        self.passed += 1
        assert isinstance(self.config, UnigramConfig)
        return int(self.passed) == self.config.passes


def register() -> None:
    KINDS["unigram"] = UnigramConfig
