"""What a run is trained to do, by kind: one objective per file, and one name below."""

from typing import Annotated, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from seqloom.runs.layout import Run
from seqloom.runs.model import config_of
from seqloom.training.objectives.actions import ActionsConfig
from seqloom.training.objectives.actor_critic import ActorCriticConfig
from seqloom.training.objectives.config import ObjectiveConfig
from seqloom.training.objectives.contrastive import ContrastiveConfig
from seqloom.training.objectives.distill import DistillConfig
from seqloom.training.objectives.exits import ExitsConfig
from seqloom.training.objectives.labels import LabelsConfig
from seqloom.training.objectives.masked_token import MaskedTokenConfig
from seqloom.training.objectives.next_token import NextTokenConfig
from seqloom.training.objectives.numbers import NumbersConfig
from seqloom.training.objectives.pairs import PairsConfig
from seqloom.training.objectives.patches import PatchesConfig
from seqloom.training.objectives.probe import ProbeConfig

AnyObjective: TypeAlias = Annotated[
    NextTokenConfig
    | ExitsConfig
    | MaskedTokenConfig
    | ProbeConfig
    | LabelsConfig
    | PairsConfig
    | ActionsConfig
    | ActorCriticConfig
    | DistillConfig
    | NumbersConfig
    | PatchesConfig
    | ContrastiveConfig,
    Field(discriminator="kind"),
]


def objective_of(run: Run) -> ObjectiveConfig:
    """The settings of the objective that a run was trained under; where it was not trained here, its model's own.

    ValueError where the run names one that there is not.
    """
    training = run.settings.get("training")
    if isinstance(training, dict):
        named = training.get("objective", {"kind": "next_token"})
    else:  # a model that was saved, or made from another
        model = config_of(run)
        named = {"kind": model.objective or ("next_token" if model.causal else "masked_token")}
    try:
        objective: ObjectiveConfig = TypeAdapter(AnyObjective).validate_python(named)
    except ValidationError:
        raise ValueError(f"{run.config} does not describe an objective that this seqloom knows") from None
    return objective
