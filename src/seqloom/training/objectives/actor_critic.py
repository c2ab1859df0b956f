"""Actor and critic: a model learns from what it does itself, in the environment that `data.source` names.

    G_t = Σ_k γ^k reward_{t+k},     A_t = G_t - V(h_t)                     h_t: the model at the state of step t
    loss = mean over steps of  -ln p(a_t | h_t) A_t  +  c (G_t - V(h_t))²  -  β H(p(· | h_t))

A batch is `batch` episodes that the model plays with its weights of that step: a function of (seed, step, model). It is
given no return (`model.returns=none`) and reads each episode whole, so that what it remembers is all that it can know
of a cue. V is linear in h, and belongs to the objective.

Source: Mnih et al., arXiv:1602.01783, section 4, whose advantage is of few steps; here an episode is played to
its end. Parisotto et al. (GTrXL, arXiv:1910.06764) learn by V-MPO.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, cast, final

import numpy as np
import torch
from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.episodes import describe_environment, open_environment
from seqloom.data.tokens import Tokens
from seqloom.evaluation.playing import roll
from seqloom.evaluation.scores import widen_logits
from seqloom.models.decision_config import TOKENS, DecisionConfig
from seqloom.training.objectives.config import ObjectiveConfig, Prepared
from seqloom.training.objectives.text import WINDOWS

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig

EPISODES = 100
"""that are played for a score"""
SCORED = 2**31
"""the step that their draws are of: none that is trained"""


@final
class ActorCriticConfig(ObjectiveConfig):
    """Learns by playing."""

    kind: Literal["actor_critic"] = "actor_critic"
    discount: float = Field(0.97, gt=0, le=1, description="γ, the discount factor per step")
    critic: float = Field(0.5, ge=0, description="c, the weight of the critic's loss")
    entropy: float = Field(0.01, ge=0, description="β, the weight of the entropy of the actions")
    made_for: ClassVar = "decision"
    untimed: ClassVar = "a step lasts as long as the model plays"

    @property
    @override
    def learned_task(self) -> str:
        return "actions"

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "episodes have", (*WINDOWS, "column", "labels", "passage", "tokenizer")

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        """The settings with the sizes of the environment that the run plays."""
        run = super().prepare(run).config
        name = run.data.source
        model = cast(DecisionConfig, run.model).with_environment(describe_environment(name, open_environment(name)))
        return Prepared(run.model_copy(update={"model": model}), None)

    @override
    def data_identity(self, data: DataConfig) -> str:
        """The name of the environment."""
        return data.source

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "ActorCritic":
        return ActorCritic(self, cast(DecisionConfig, model).dim, rows, data.seed)

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> NoReturn:
        raise ValueError(f"{self.untimed}, which cannot be timed before: train without --plan")


@final
class ActorCritic(Objective):
    """What a model does in `rows` episodes per step; `seed` is that of the episodes that it is scored on."""

    def __init__(self, config: ActorCriticConfig, dim: int, rows: int, seed: int) -> None:
        super().__init__()
        self.config = config
        self.rows = rows
        self.seed = seed
        self.value = nn.Linear(dim, 1)

    @override
    def batch(self, seed: int, step: int, model: Any) -> Batch:
        """Episodes that the model plays: its inputs, and `gains` (B, T), the discounted returns G_t."""
        with Rest(model):
            draws = [np.random.default_rng((seed, step, row)) for row in range(self.rows)]
            rewards, played, past = roll(model, np.zeros(self.rows, np.float32), draws)
        inputs = past.window(np.arange(self.rows), len(rewards) - 1, torch.device("cpu"))
        gains = discount_returns(rewards, self.config.discount)
        return {**inputs, "keep": torch.from_numpy(played.T.copy()), "gains": torch.from_numpy(gains.T.copy())}

    @override
    def targets(self, batch: Batch) -> int:
        """The steps of these episodes."""
        return int(batch["keep"].sum())

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "episodes are as long as the model plays"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The actor's, the critic's and the entropy's, means over the steps."""
        keep = batch["keep"]
        inputs = (batch["returns"], batch["states"], batch["actions"])
        x, extras = model.features_with_extras(batch["ids"], keep, None, *inputs)
        x = x[:, 1::TOKENS]  # at the token of each state (B, T, D)
        log_p = widen_logits(model.output(x)).log_softmax(-1)[keep]
        values = self.value(model.norm(x))[..., 0][keep]
        gains = batch["gains"][keep].to(values.dtype)
        log_p_chosen = log_p.gather(-1, batch["actions"][keep][:, None])[:, 0]
        actor = -(log_p_chosen * (gains - values.detach())).mean()
        critic = self.config.critic * (gains - values).square().mean()
        entropy = self.config.entropy * (log_p.exp() * log_p).sum(-1).mean()
        return Pass({"actor": actor, "critic": critic, "entropy": entropy}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean return of episodes that are never trained on; `held_out` is minus that."""
        with Rest(model):
            draws = [np.random.default_rng((self.seed, SCORED, row)) for row in range(EPISODES)]
            rewards, played, _ = roll(model, np.zeros(EPISODES, np.float32), draws)
        reached = float(rewards.sum(0).mean())
        return {"held_out": -reached, "return": reached, "steps": float(played.sum(0).mean()), "episodes": EPISODES}

    @override
    def summary(self, row: Row) -> str:
        """Return and length."""
        reached = f"return {format_cell(row['return'])} in {format_cell(row['steps'])} steps"
        return f"{reached}, mean of {row['episodes']} episodes"


def discount_returns(rewards: Any, discount: float) -> Any:
    """G_t (T, N) of rewards (T, N)."""
    gains = np.zeros_like(rewards)
    later = np.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        later = rewards[step] + discount * later
        gains[step] = later
    return gains
