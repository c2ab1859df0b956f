"""The settings of a Decision Transformer: its sizes, and what follows from the episodes that it is trained on."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.position import PositionConfig
from seqloom.data.episodes import Environment, Episodes
from seqloom.models.config import TransformerConfig
from seqloom.positions import AnyPosition
from seqloom.positions.none import NoPositionConfig

if TYPE_CHECKING:
    from seqloom.models.decision import Decision

TOKENS = 3
"""tokens of a step: the return to go, the state, the action"""
LEAST = 1e-6
"""the smallest deviation: a state that never changes has 0, by which it could not be divided"""
Numbers = Annotated[tuple[float, ...], Field(strict=False)]


@final
class DecisionConfig(TransformerConfig):
    """The sizes of a Decision Transformer and its mixers; what it plays follows from the episodes."""

    kind: Literal["decision"] = "decision"
    vocab: int = Field(
        5000, ge=1, le=2**24, description="steps of an episode that have an embedding; set from the episodes"
    )
    context: int = Field(
        20, ge=1, le=2**22, description="steps of a window, each of three tokens (return, state, action)"
    )
    position: AnyPosition = Field(NoPositionConfig(), description="kind of position information of the mixers, or none")
    embed_norm: bool = Field(True, description="whether the embeddings are normalized")
    embed_scale: Literal[False] = Field(False, description="only for embeddings of words")
    tie: Literal[False] = Field(False, description="only for an output over the vocabulary")
    returns: Literal["to_go", "end", "none"] = Field(
        "to_go",
        description="condition of each step: the return-to-go; end: the return-to-go if all rewards came at the "
        "end; none: no return (behaviour cloning)",
    )
    environment: Environment = Field(Environment(), description="the environment; set from the episodes")
    mean: Numbers = Field((), description="mean of each dimension of a state; set from the episodes")
    deviation: Numbers = Field((), description="standard deviation of each dimension of a state; set from the episodes")
    largest: float = Field(1.0, gt=0, description="largest return; set from the episodes")
    causal: ClassVar = True
    objective: ClassVar = "actions"

    @property
    @override
    def outputs(self) -> int:
        return self.environment.actions

    @property
    @override
    def reach(self) -> int:
        return TOKENS * self.context

    @model_validator(mode="after")
    def _one_position(self) -> "DecisionConfig":
        position: PositionConfig = self.position
        if position.place in ("embedding", "layers"):
            raise ValueError(
                f"each step has an embedding of its own, which model.position={position.kind} would be next to: choose "
                "none, or one that acts in the mixers (rotary, t5, alibi, …)"
            )
        return self

    def with_environment(self, environment: Environment) -> "DecisionConfig":
        """The settings of a model that learns by playing and reads whole episodes. ValueError where it cannot."""
        if self.returns != "none":
            raise ValueError("a model that learns by playing is told no return: set model.returns=none")
        if environment.limit is None or environment.continuous:
            reason = "its episodes have no limit" if environment.limit is None else "its actions are continuous"
            raise ValueError(f"{environment.name} cannot be learned by playing: {reason}")
        sizes = {"environment": environment, "vocab": environment.limit, "context": environment.limit}
        return self.model_copy(update=sizes)

    def with_episodes(self, episodes: Episodes) -> "DecisionConfig":
        """The settings with what follows from the episodes that are trained on."""
        environment = episodes.environment
        steps = max(int(episodes.lengths.max()), environment.limit or 0)
        states = episodes.states.astype(np.float64)
        settings: dict[str, Any] = {"environment": environment, "vocab": steps}
        settings["mean"] = tuple(map(float, states.mean(0)))
        settings["deviation"] = tuple(map(float, np.maximum(states.std(0), LEAST)))
        settings["largest"] = float(np.abs(episodes.returns).max()) or 1.0
        return self.model_copy(update=settings)

    @override
    def build(self, layers: int | None = None) -> "Decision":
        from seqloom.models.decision import Decision

        return Decision(self, layers)
