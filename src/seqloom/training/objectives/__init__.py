"""What a run is trained to do, by kind: one objective per file, and one name below."""

from typing import Annotated, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from seqloom.runs.layout import Run
from seqloom.training.objectives.config import ObjectiveConfig
from seqloom.training.objectives.exits import ExitsConfig
from seqloom.training.objectives.labels import LabelsConfig
from seqloom.training.objectives.masked_token import MaskedTokenConfig
from seqloom.training.objectives.next_token import NextTokenConfig
from seqloom.training.objectives.pairs import PairsConfig
from seqloom.training.objectives.probe import ProbeConfig

AnyObjective: TypeAlias = Annotated[
    NextTokenConfig | ExitsConfig | MaskedTokenConfig | ProbeConfig | LabelsConfig | PairsConfig,
    Field(discriminator="kind"),
]


def objective_of(run: Run) -> ObjectiveConfig:
    """The settings of the objective that a run was trained under. ValueError where the run names none."""
    training = run.settings.get("training")
    if not isinstance(training, dict):
        raise ValueError(f"{run.config} has no training, and so no objective to score a model by")
    try:
        objective: ObjectiveConfig = TypeAdapter(AnyObjective).validate_python(
            training.get("objective", {"kind": "next_token"})
        )
    except ValidationError:
        raise ValueError(f"{run.config} does not describe an objective that this seqloom knows") from None
    return objective
