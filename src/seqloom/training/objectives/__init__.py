"""What a run is trained to do, by kind: one objective per file, and one name below."""

from typing import Annotated, TypeAlias

from pydantic import Field

from seqloom.training.objectives.next_token import NextTokenConfig
from seqloom.training.objectives.probe import ProbeConfig

AnyObjective: TypeAlias = Annotated[NextTokenConfig | ProbeConfig, Field(discriminator="kind")]
