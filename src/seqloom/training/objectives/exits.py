"""Next token after every layer, so that the last ones can be left out; by one output layer or by each layer's own.

    aligned    loss = Σ_l w_l loss_l,   w_l = l / (1 + … + L), or 1 / L with `weights` alike
               loss_l = -1/n Σ_t ln p_l(token t+1 | tokens 1 … t),   p_l = softmax(logits_l(x_l))
    mixed      loss = -1/nM Σ_m Σ_t ln p_l(token t+1 | tokens 1 … t),   l = l_mt drawn from 1 … L

x_l is the stream after layer l, logits_l the output layer there (`model.exit_heads`). Aligned, all tokens before t went
through as many layers as t. Mixed, each token goes on as it is after a layer of its own, so that t reads what tokens
before it left behind, as in generation; M times for each row, with other draws. The score is that of the last layer.

Source: Schuster et al., CALM, arXiv:2207.07061, section 3.4 (by layers); Elbayad et al., Depth-Adaptive Transformer,
arXiv:1910.10073, section 3 (alike; mixed). What differs: gradients of aligned training are not scaled by layer.
"""

from abc import ABC
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.extras import Extras, weight_extras
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Pass
from seqloom.data.config import DataConfig
from seqloom.data.probes.draws import Draws
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import widen_logits
from seqloom.training.objectives.next_token import NextToken, ScoredByToken
from seqloom.training.objectives.text import TextObjectiveConfig


@final
class ExitsConfig(TextObjectiveConfig):
    """Predicts every token after every layer, for `generate --exit`."""

    kind: Literal["exits"] = "exits"
    weights: Literal["layers", "alike"] = Field(
        "layers", description="weights of the losses of the layers: proportional to the layer's index (CALM), or equal"
    )
    training: Literal["aligned", "mixed"] = Field(
        "aligned",
        description="aligned: each token is predicted after every layer; mixed: after layers that are drawn "
        "(Depth-Adaptive Transformer)",
    )
    samples: int = Field(1, ge=1, le=1000, description="with mixed training: number of draws of the layers per row")
    trains_exits: ClassVar = True
    resizes: ClassVar = True
    later: ClassVar = ("training", "samples")

    @model_validator(mode="after")
    def _check_use(self) -> "ExitsConfig":
        if self.training == "mixed" and self.weights != "layers":
            raise ValueError("weights are of aligned training: mixed training draws each layer as often")
        if self.training == "aligned" and self.samples != 1:
            raise ValueError("samples are of mixed training: aligned training reads all layers at once")
        return self

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "ScoredByToken":
        windows = NextToken(tokens, model.context, rows, data.within_documents, data.disjoint)
        if self.training == "mixed":
            return MixedExits(windows, len(model.mixers), self.samples)
        return NextTokenExits(windows, self.weights == "layers")


class Exits(ScoredByToken, ABC):
    """The windows of next_token."""

    def __init__(self, windows: NextToken) -> None:
        super().__init__(windows.rows, windows.context)
        self.windows = windows

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


@final
class NextTokenExits(Exits):
    """The windows of next_token, predicted after every layer."""

    def __init__(self, windows: NextToken, by_layer: bool) -> None:
        """With `by_layer` the loss of layer l has weight l; otherwise all have the same."""
        super().__init__(windows)
        self.by_layer = by_layer

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The weighted mean of the layers' losses; the logits are taken in float32 at least."""
        ids = batch["ids"]
        streams, extras = model.exits(ids[:, :-1])
        targets = ids[:, 1:].flatten()
        outputs = (model.exit_logits(x, layer) for layer, x in enumerate(streams, 1))
        losses = torch.stack([cross_entropy(widen_logits(logits).flatten(0, 1), targets) for logits in outputs])
        shares = torch.arange(1, len(losses) + 1, device=losses.device) if self.by_layer else torch.ones_like(losses)
        return Pass({"loss": (losses * shares).sum() / shares.sum()}, extras)


@final
class MixedExits(Exits):
    """The windows of next_token, each token predicted after a layer of `depth` that is drawn, `samples` times."""

    def __init__(self, windows: NextToken, depth: int, samples: int) -> None:
        super().__init__(windows)
        self.depth, self.samples = depth, samples

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1), and `layers` (B, M, T)."""
        batch = super().batch(seed, step, model)
        draws = Draws(f"exits {seed}", step * self.rows, self.rows)
        layers = 1 + draws.below(self.depth, self.samples * self.context)
        return {**batch, "layers": torch.from_numpy(layers).view(self.rows, self.samples, self.context)}

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "mixed exits draw how many tokens each layer predicts"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss over tokens and draws; the logits are taken in float32 at least."""
        ids = batch["ids"]
        targets = ids[:, 1:]
        sums: list[Tensor] = []
        passes: list[tuple[Extras, Tensor]] = []
        for layers in batch["layers"].unbind(1):
            x, extras = model.exits_at(ids[:, :-1], layers)
            for layer in range(1, self.depth + 1):
                exits_here = layers == layer
                logits = model.exit_logits(x[exits_here][None], layer)[0]
                sums.append(cross_entropy(widen_logits(logits), targets[exits_here], reduction="sum"))
            passes.append((extras, torch.tensor(1 / self.samples)))
        return Pass({"loss": torch.stack(sums).sum() / (self.samples * targets.numel())}, weight_extras(passes))
