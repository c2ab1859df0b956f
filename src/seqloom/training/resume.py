"""A checkpoint's JSON on its training, read as untrusted input: its rows, and the conditions of resuming."""

from dataclasses import dataclass
from typing import Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seqloom.core.progress import Say
from seqloom.runs import checkpoint
from seqloom.runs.about import ROWS
from seqloom.runs.checkpoint import Checkpoint
from seqloom.runs.layout import Run
from seqloom.runs.rows import Mark
from seqloom.training.group import Group


class _Part(BaseModel):
    """Some fields of a JSON object; its others are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


@final
class _Surroundings(_Part):
    threads: int = Field(ge=1, le=4096)
    backends: dict[str, list[str]]
    code: dict[str, str | int] = {}
    graph: Literal["none", "capture"] = "none"
    precision: Literal["float32", "tf32"] | None = None


@final
class _Best(_Part):
    step: int = Field(ge=0)
    loss: float


@final
class _Meta(_Part):
    surroundings: _Surroundings
    best: _Best | None
    solved: bool = False


@final
@dataclass(frozen=True)
class Resumed:
    """The point at which a training resumes."""

    saved: Checkpoint
    surroundings: dict[str, Any]
    """as `drift.surroundings` had them"""
    best: dict[str, Any] | None
    """the step of the lowest held-out loss so far, and that loss"""
    rows: Mark
    solved: bool
    """whether the objective left nothing to learn"""


def newest(run: Run, group: Group, say: Say, divided: bool = False) -> Resumed | None:
    """Where the newest good checkpoint of a run, which rank 0 chooses, lets it resume; None without one.

    Where the model is `divided`, what several processes have written is verified by rank 0 alone, and left to
    `checkpoint.read_parts`. ValueError as `resume`.
    """
    saved = checkpoint.newest(run.checkpoints, say, whole=not divided) if group.main else None
    name = group.of_main(lambda: None if saved is None else saved.path.name)
    if name is None:
        return None
    if saved is None:
        saved = checkpoint.load(run.checkpoints / name, whole=not divided, verify=not divided)
    return resume(saved, run)


def resume(saved: Checkpoint, run: Run) -> Resumed:
    """The point from which a training resumes.

    ValueError, in one line, for a checkpoint of other settings or of no training.
    """
    if saved.meta.get("run") != run.identity:
        raise ValueError(f"{saved.path} belongs to other settings than {run.config}: choose another --out")
    if "optimizer" not in saved.tensors:
        raise ValueError(f"{saved.path} holds a model without its optimizer, so that its training cannot go on")
    try:
        meta = _Meta.model_validate(saved.meta)
        mark = Mark.of(saved.meta.get(ROWS))
        return Resumed(saved, saved.meta["surroundings"], saved.meta["best"], mark, meta.solved)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(str(part) for part in first['loc'])[:80]}: {first['msg']}"
    except ValueError as error:
        why = str(error)
    raise ValueError(f"{saved.path} does not say how its training goes on ({why})")
