"""Actions: the action of each step of recorded episodes, given the return that it led to.

    loss = mean of -ln p(a_t | R̂_1, s_1, a_1, …, R̂_t, s_t)                  of one of several: nats per action
    loss = mean of (a_t - â_t)²                                              of a vector of numbers, scaled to -1 … 1

A batch holds windows of `context` steps. Each step of the episodes begins one window an epoch, in an order of its own,
and a window ends with its episode. What is scored are windows of held-out episodes, side by side.

With `best` below 1 only that share of the training episodes is learned from, those of the largest returns (at least
one): with `model.returns=none` behaviour cloning of the best X %. States are scaled by all training episodes.

Source: Chen et al., Decision Transformer, arXiv:2106.01345, section 3 (training), its Algorithm 1, and section 5.1 (the
best X %). What differs: a step begins as many windows as any other in an epoch, where the authors' program draws them;
there X % of the steps are meant, here of the episodes.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from typing_extensions import override

from seqloom.core.extras import Extras
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.episodes import Environment, Episodes, read_episodes, sides
from seqloom.data.permutation import permute
from seqloom.data.random_texts import random_episodes
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import widen_logits
from seqloom.models.decision_config import DecisionConfig
from seqloom.training.objectives.config import ObjectiveConfig, Prepared
from seqloom.training.objectives.text import WINDOWS

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


@final
class ActionsConfig(ObjectiveConfig):
    """Predicts the actions of recorded episodes."""

    kind: Literal["actions"] = "actions"
    best: float = Field(
        1.0, gt=0, le=1, description="fraction of the training episodes that is used, those of the largest returns"
    )
    made_for: ClassVar = "decision"
    later: ClassVar = ("best",)

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "episodes have", (*WINDOWS, "column", "labels", "passage", "tokenizer")

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        """The settings with what follows from episodes: sizes of states and actions, and how states are scaled."""
        run = super().prepare(run).config
        train, _ = sides(read_episodes(run.data.source), run.data.held_out, run.data.seed)
        model = cast(DecisionConfig, run.model).with_episodes(train)
        return Prepared(run.model_copy(update={"model": model}), None)

    @override
    def data_identity(self, data: DataConfig) -> str:
        """That of the episodes."""
        return read_episodes(data.source).identity

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Actions":
        train, held_out = sides(read_episodes(data.source), data.held_out, data.seed)
        return Actions(cast(DecisionConfig, model), best_of(train, self.best), held_out, rows)

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        sizes = cast(DecisionConfig, model)
        episodes = random_episodes(sizes.environment, min(model.context, model.vocab))
        return Actions(sizes, episodes, episodes, rows)


@final
class Actions(Objective):
    """Windows of episodes, `rows` per step; `held_out` are the episodes that are never trained on."""

    def __init__(self, model: DecisionConfig, train: Episodes, held_out: Episodes, rows: int) -> None:
        super().__init__()
        self.model = model
        self.train_on = train
        self.held_out = held_out
        self.rows = rows
        require_same(model.environment, train.environment)

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The tensors of `windows`, of the windows that a step begins with."""
        count = self.train_on.steps
        epoch, index = np.divmod(np.arange(step * self.rows, (step + 1) * self.rows), count)
        return windows(self.train_on, permute(index, epoch, count, seed), self.model)

    @override
    def targets(self, batch: Batch) -> int:
        """The actions of these rows."""
        return int(batch["keep"].sum())

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "rows are as long as the longest episode of their batch"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of an action."""
        predicted, extras = predict_actions(model, batch)
        loss = loss_of(predicted[batch["keep"]], batch["actions"][batch["keep"]])
        return Pass({"loss": loss}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss of an action of held-out episodes, or of those given; the share of right ones if discrete."""
        episodes: Episodes = self.held_out if held_out is None else held_out
        require_same(model.config.environment, episodes.environment)
        total = 0.0
        right = 0
        steps = 0
        firsts = np.flatnonzero(episodes.times % self.model.context == 0)
        with Rest(model):
            for begin in range(0, len(firsts), self.rows):
                cpu_batch = windows(episodes, firsts[begin : begin + self.rows], self.model)
                batch = {name: tensor.to(model.device) for name, tensor in cpu_batch.items()}
                keep = batch["keep"]
                predicted = predict_actions(model, batch)[0][keep]
                actions = batch["actions"][keep]
                total += float(loss_of(predicted.double(), actions)) * len(actions)
                steps += len(actions)
                if not actions.is_floating_point():
                    right += int((predicted.argmax(-1) == actions).sum())
        row = {"held_out": total / steps, "actions": steps}
        return row if episodes.environment.continuous else {**row, "accuracy": right / steps}

    @override
    def summary(self, row: Row) -> str:
        """The loss, and the share of right actions where there is one."""
        loss = f"held-out loss {format_cell(row['held_out'])}"
        if "accuracy" not in row:
            return f"{loss} per action, squared"
        return f"{loss} nats per action, {row['accuracy']:.1%} of {row['actions']:,} right"


def best_of(episodes: Episodes, share: float) -> Episodes:
    """The share of the episodes that have the largest returns, at least one; of equal returns the earlier ones."""
    count = max(1, round(share * len(episodes)))
    chosen = np.zeros(len(episodes), bool)
    chosen[np.argsort(-episodes.returns, kind="stable")[:count]] = True
    return episodes.select(chosen)


def require_same(model: Environment, episodes: Environment) -> None:
    """ValueError, in one line, where episodes have other states or actions than the model learned."""
    if model.continuous != episodes.continuous:
        kinds = {True: "continuous", False: "discrete"}
        raise ValueError(
            f"{episodes.name or 'these episodes'} has {kinds[episodes.continuous]} actions, and the model learned "
            f"{kinds[model.continuous]} ones of "
            f"{model.name}: give episodes of that environment"
        )
    for field in ("states", "actions", "low", "high"):
        model_value = getattr(model, field)
        value = getattr(episodes, field)
        if value != model_value:
            raise ValueError(
                f"{episodes.name or 'these episodes'} has {value} for {field}, and the model learned {model_value} of "
                f"{model.name}: give episodes of that environment"
            )


def windows(episodes: Episodes, firsts: "npt.NDArray[np.int64]", model: DecisionConfig) -> Batch:
    """Windows of at most `model.context` steps of one episode each, which begin with the given steps.

    `ids` (B, T): the numbers of the steps; `keep` (B, T): False after the end of an episode; `returns` (B, T), `states`
    (B, T, S), and `actions` (B, T), or (B, T, A) of numbers that are scaled to -1 … 1.
    """
    ends = episodes.ends[np.searchsorted(episodes.starts, firsts, side="right") - 1]  # of their episodes
    lengths = np.minimum(ends - firsts, model.context)
    index = firsts[:, None] + np.arange(int(lengths.max()))
    keep = np.arange(index.shape[1]) < lengths[:, None]
    index = np.where(keep, index, firsts[:, None])  # (B, T); padding repeats the first step
    actions = episodes.actions[index]
    if episodes.environment.continuous:
        actions = episodes.environment.scale_actions(actions)
    returns = episodes.to_go if model.returns != "end" else np.repeat(episodes.returns, episodes.lengths)
    arrays = {"ids": episodes.times[index], "keep": keep, "returns": returns[index].astype(np.float32)}
    arrays |= {"states": episodes.states[index], "actions": actions}
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def predict_actions(model: Any, batch: Batch) -> tuple[Tensor, Extras]:
    """The actions that the model predicts for the steps of a batch (B, T, A), and its extras."""
    predicted, extras = model.decide(batch["ids"], batch["keep"], batch["returns"], batch["states"], batch["actions"])
    return widen_logits(predicted), extras


def loss_of(predicted: Tensor, actions: Tensor) -> Tensor:
    """The mean loss of actions (N,) or (N, A), given logits or numbers (N, A)."""
    if actions.is_floating_point():
        return mse_loss(predicted, actions.to(predicted.dtype))
    return cross_entropy(predicted, actions)
