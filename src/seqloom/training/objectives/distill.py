"""Distillation: sublayers that stand in the place of attention learn what the model did with it, in four stages.

    sublayers   loss = Σ_l |f_l(x_l) - a_l(x_l)|² / var(a_l(x_l))     x_l: the input of layer l's attention a_l
    states      loss = mean_l |h_l - h'_l|² / var(h'_l)               h_l: the stream after layer l
    logits      loss = τ² Σ p' ln(p' / p),   p = softmax(z / τ)       z: the logits; h', p': the teacher's
    loss        loss = -1/n Σ ln p(token t+1 | tokens 1 … t)          and every weight learns

The model is its own teacher: the replaced attention stays beside the new sublayers f_l (`SwitchedMixers`), and all
other weights are those of both, so that only f_l learns in the first three stages. In the first of them the activations
of one sublayer are in memory at a time. Auxiliary losses of mixers count from the second on.

Source: Bick et al., MOHAWK, arXiv:2408.10189 (sublayers, states, logits); Hinton et al., arXiv:1503.02531 (τ); Zhang et
al., Hedgehog, arXiv:2402.04347. What differs: MOHAWK's first stage compares matrices of weights, which most mixers have
not, and its other weights learn by the logits, where they would be the teacher's too.
"""

from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import kl_div, mse_loss
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Pass, Row
from seqloom.core.rest import Rest
from seqloom.data.config import DataConfig
from seqloom.data.given_tokenizer import given_tokenizer
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score, widen_logits
from seqloom.models.config import TransformerConfig
from seqloom.models.switched import SwitchedMixers, differing_layers
from seqloom.ops.backends import checkpoint_contexts
from seqloom.runs import model as stored
from seqloom.runs.layout import find_run
from seqloom.training.objectives.config import Prepared
from seqloom.training.objectives.next_token import NextToken, ScoredByToken
from seqloom.training.objectives.text import TextObjectiveConfig

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig

STAGES = ("sublayers", "states", "logits", "loss")


@final
class DistillConfig(TextObjectiveConfig):
    """New sublayers learn what attention did in their place; begin with the model that `seqloom swap` makes."""

    kind: Literal["distill"] = "distill"
    teacher: str = Field("", description="the folder of the model before the swap: a run, or one of transformers")
    sublayers: int = Field(0, ge=0, description="batches in which each new sublayer learns the output of attention")
    states: int = Field(0, ge=0, description="batches after these, in which they learn the stream after each layer")
    logits: int = Field(0, ge=0, description="batches after these, in which they learn the logits; then all learn")
    temperature: float = Field(1.0, gt=0, description="divisor of the logits that are compared")
    resizes: ClassVar = True
    untimed: ClassVar = "its stages take different times"

    @override
    def check(self, run: "RunConfig") -> None:
        super().check(run)
        if not isinstance(run.model, TransformerConfig):
            raise ValueError(f"a model of kind {run.model.kind} has no attention that could have been replaced")
        if not self.teacher:
            raise ValueError("training.objective.kind=distill needs training.objective.teacher: the folder of a model")
        if run.training.begin is None and any((self.sublayers, self.states, self.logits)):
            raise ValueError(
                "distillation begins with the swapped model: seqloom swap TEACHER --to KIND --out START, then add "
                "--from START"
            )

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        teacher = find_run(self.teacher)
        config = stored.config_of(teacher)
        assert isinstance(run.model, TransformerConfig)
        if not isinstance(config, TransformerConfig) or not differing_layers(config, run.model):
            raise ValueError(f"{self.teacher} is not the model before the swap: no layer differs in its mixer")
        prepared = super().prepare(run)
        if teacher.has_tokenizer() and prepared.corpus is not None:
            own = given_tokenizer(teacher.folder if teacher.is_foreign else teacher.tokenizer)
            if own.json != prepared.corpus.tokenizer.json:
                raise ValueError(f"{self.teacher} has another tokenizer: add --set data.tokenizer={teacher.tokenizer}")
        return prepared

    @override
    def with_vocab(self, run: "RunConfig", tokenizer: Tokenizer) -> "RunConfig":
        """The settings as they are: the vocabulary is the teacher's, which may have room for further tokens."""
        if tokenizer.vocab > run.model.vocab:
            raise ValueError(f"the tokenizer has {tokenizer.vocab:,} tokens, the teacher {run.model.vocab:,}")
        return run

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> ScoredByToken:
        windows = NextToken(tokens, model.context, rows, data.within_documents, data.disjoint)
        if tokens is None:  # it scores alone, and needs no teacher
            return windows
        assert isinstance(model, TransformerConfig)
        teacher, _ = stored.load(self.teacher)
        assert isinstance(teacher.config, TransformerConfig)
        layers = {number: teacher.mixers[number] for number in differing_layers(teacher.config, model)}
        return Distill(windows, self, SwitchedMixers(layers))


@final
class Distill(ScoredByToken):
    """The windows of next_token, and the attention whose place others have taken."""

    def __init__(self, windows: NextToken, config: DistillConfig, replaced: SwitchedMixers) -> None:
        super().__init__(windows.rows, windows.context)
        self.windows = windows
        self.replaced = replaced
        self.temperature = config.temperature
        self.ends = tuple(accumulate((config.sublayers, config.states, config.logits)))

    @override
    def resize(self, context: int) -> None:
        super().resize(context)
        self.windows.resize(context)

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1) and the number of the stage, (B,)."""
        ids = self.windows.batch(seed, step, model)["ids"]
        stage = sum(step >= end for end in self.ends)
        return {"ids": ids, "stage": torch.full((len(ids),), stage)}

    @override
    def targets(self, batch: Batch) -> int:
        """All ids but the first of each row."""
        return self.windows.targets(batch)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """Every held-out token predicted once, from rows as long as those that it learns from."""
        return score(model, held_out, batch=self.rows, context=self.context).row()

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "what learns depends on the stage of the distillation"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The loss of the batch's stage; from now on the model has gradients where that stage learns."""
        stage = STAGES[int(batch["stage"][0])]
        ids = batch["ids"]
        self._let_learn(model, everything=stage == "loss")
        if stage == "sublayers":
            return self._sublayers(model, ids[:, :-1])
        if stage == "states":
            return self._states(model, ids[:, :-1])
        if stage == "logits":
            return self._logits(model, ids[:, :-1])
        loss, extras = model.loss_with_extras(ids[:, :-1], ids[:, 1:])
        return Pass({"loss": loss}, extras)

    def _sublayers(self, model: Any, ids: Tensor) -> Pass:
        """Each sublayer on the input that attention has in the teacher."""
        seen: dict[int, tuple[Tensor, Tensor]] = {}

        def keep(number: int) -> Any:
            def hook(module: nn.Module, arguments: tuple[Tensor, ...], y: Tensor) -> None:
                seen[number] = (arguments[0], y)

            return hook

        handles = [self.replaced.of(number).register_forward_hook(keep(number)) for number in self.replaced.numbers]
        try:
            with Rest(model), self.replaced.in_place(model):
                model.features(ids)
        finally:
            for handle in handles:
                handle.remove()
        losses = [
            checkpoint(_relative_error, model.mixers[number], x, y, use_reentrant=False, context_fn=checkpoint_contexts)
            for number, (x, y) in sorted(seen.items())
        ]
        return Pass({"loss": torch.stack(losses).sum()})

    def _states(self, model: Any, ids: Tensor) -> Pass:
        """The stream after each layer from the first new one on."""
        first = self.replaced.numbers[0]
        with Rest(model), self.replaced.in_place(model):
            wanted = model.exits(ids)[0][first:]
        streams, extras = model.exits(ids)
        losses = [mse_loss(x, y) / y.var() for x, y in zip(streams[first:], wanted, strict=True)]
        return Pass({"loss": torch.stack(losses).mean()}, extras)

    def _logits(self, model: Any, ids: Tensor) -> Pass:
        """The probabilities of the next token at every position."""
        with Rest(model), self.replaced.in_place(model):
            wanted = (widen_logits(model(ids)) / self.temperature).log_softmax(-1).flatten(0, 1)
        logits, extras = model.forward_with_extras(ids)
        found = (widen_logits(logits) / self.temperature).log_softmax(-1).flatten(0, 1)
        loss = kl_div(found, wanted, log_target=True, reduction="batchmean") * self.temperature**2
        return Pass({"loss": loss}, extras)

    def _let_learn(self, model: Any, everything: bool) -> None:
        """Gives gradients to every weight of the model, or to the new sublayers alone."""
        new = {id(parameter) for number in self.replaced.numbers for parameter in model.mixers[number].parameters()}
        for parameter in model.parameters():
            parameter.requires_grad_(everything or id(parameter) in new)


def _relative_error(mixer: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The mean square of f(x) - y, divided by the variance of y."""
    return mse_loss(mixer(x), y) / y.var()
