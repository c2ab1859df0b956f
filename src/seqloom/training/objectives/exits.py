"""Next token after every layer: all layers predict by the same output layer, so that the last ones can be left out.

    loss = Σ_l w_l loss_l,   w_l = l / (1 + … + L), or 1 / L with `weights` alike
    loss_l = -1/n Σ ln p_l(token t+1 | tokens 1 … t),   p_l = softmax(logits(x_l))        x_l: the stream after layer l

The score is that of the last layer.

Source: Schuster et al., CALM, arXiv:2207.07061, section 3.4 (by layers); Elbayad et al., Depth-Adaptive Transformer,
arXiv:1910.10073, section 3.1, aligned training (alike). Of the latter, an output layer for each exit and mixed training
are not here.
"""

from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Pass
from seqloom.data.config import DataConfig
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import widened
from seqloom.training.objectives.config import ObjectiveConfig
from seqloom.training.objectives.next_token import NextToken, ScoredByToken


@final
class ExitsConfig(ObjectiveConfig):
    """Predicts every token after every layer, for `generate --exit`."""

    kind: Literal["exits"] = "exits"
    weights: Literal["layers", "alike"] = Field(
        "layers", description="of the layers' losses: in proportion to the layer's number (CALM), or alike"
    )
    resizes: ClassVar = True

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "NextTokenExits":
        windows = NextToken(tokens, model.context, rows, data.within_documents, data.disjoint)
        return NextTokenExits(windows, self.weights == "layers")


@final
class NextTokenExits(ScoredByToken):
    """The windows of next_token, predicted after every layer."""

    def __init__(self, windows: NextToken, by_layer: bool) -> None:
        super().__init__(windows.rows, windows.context)
        self.windows, self.by_layer = windows, by_layer

    @override
    def resize(self, context: int) -> None:
        super().resize(context)
        self.windows.resize(context)

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1)."""
        return self.windows.batch(seed, step, model)

    @override
    def targets(self, batch: Batch) -> int:
        """All ids but the first of each row."""
        return self.windows.targets(batch)

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The weighted mean of the layers' losses; the logits are taken in float32 at least."""
        ids = batch["ids"]
        streams, extras = model.exits(ids[:, :-1])
        targets = ids[:, 1:].flatten()
        losses = torch.stack([cross_entropy(widened(model.logits(x)).flatten(0, 1), targets) for x in streams])
        shares = torch.arange(1, len(losses) + 1, device=losses.device) if self.by_layer else torch.ones_like(losses)
        return Pass({"loss": (losses * shares).sum() / shares.sum()}, extras)
