"""A checkpoint's meta.json: its step, the names of the tensors in each group, the caller's JSON. Needs no torch."""

from pathlib import Path
from typing import Annotated, Any, final

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic import Field as Value

from seqloom.core.files import parse_json
from seqloom.runs import manifest, steps
from seqloom.runs.manifest import Damaged
from seqloom.runs.rows import Mark

NAME = "meta.json"
ROWS = "rows"
"""the key of the caller's JSON that holds the mark of the rows before the checkpoint"""


@final
class Group(BaseModel):
    """The names of a group's tensors, and of those among them that are pairs of reals."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    tensors: list[str]
    complex: list[str]
    shapes: dict[str, list[Annotated[int, Value(ge=0)]]] | None = None
    """of the whole tensors, by name, where processes have written parts of them"""


@final
class About(BaseModel):
    """A checkpoint without its tensors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    step: int = Value(ge=0)
    groups: dict[Annotated[str, StringConstraints(pattern=f"^{manifest.PLAIN}$")], Group]
    meta: dict[str, Any]

    @property
    def is_divided(self) -> bool:
        """Whether the tensors lie in parts that several processes have written."""
        return any(group.shapes is not None for group in self.groups.values())


def describe(path: Path) -> About:
    """The contents of meta.json in the checkpoint `path`, verified; tensors are not read.

    Raises as `manifest.verify` does.
    """
    data = manifest.read(path, NAME)
    try:
        about = About.model_validate(parse_json(data))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])[:80]
        raise Damaged(f"{path}: {NAME} does not describe a checkpoint ({field}: {first['msg']})") from None
    except ValueError as error:
        raise Damaged(f"{path}: {NAME} is not readable JSON ({error})") from None
    if steps.step_of(path) not in (None, about.step):
        raise Damaged(f"{path}: it holds step {about.step}, its name says another")
    return about


def newest_mark(checkpoints: Path) -> Mark | None:
    """The mark of the rows that the newest good checkpoint counts; None without one, or where it counts no rows."""
    for path in steps.newest_first(checkpoints):
        try:
            return Mark.of(describe(path).meta.get(ROWS))
        except (OSError, ValueError):
            continue
    return None
