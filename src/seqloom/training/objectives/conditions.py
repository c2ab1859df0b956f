"""What models that count, and trainings with a memory, in pieces, in stretches or divided, ask of a run's settings."""

from typing import TYPE_CHECKING

from seqloom.core.layered import LayeredConfig
from seqloom.training.preset import GRADIENTS

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


def require_counting(run: "RunConfig") -> None:
    """Raises ValueError unless a model that counts reads each token once a pass, and no setting is of gradients."""
    if not run.model.fits:
        return
    training, kind = run.training, run.model.kind
    if training.memory == "carry":
        raise ValueError(
            f"model.kind={kind} cannot be trained with training.memory=carry, whose rows are stretches of the "
            "text: it counts a text in its order, with data.disjoint=true"
        )
    if training.objective.kind != "next_token" or not run.data.disjoint:
        raise ValueError(
            f"model.kind={kind} counts each token of the text at most once: set data.disjoint=true, and leave "
            "training.objective out"
        )
    fields = type(training).model_fields
    changed = [name for name in GRADIENTS if getattr(training, name) != fields[name].default]
    if changed:
        raise ValueError(f"model.kind={kind} counts, without gradients: leave training.{changed[0]} out")


def require_carrying(run: "RunConfig") -> None:
    """Raises ValueError for settings that do not fit a training with a memory."""
    training = run.training
    if training.memory == "none":
        if training.through > 1:
            raise ValueError("training.through counts segments that are read on: set training.memory=carry as well")
        return
    conflicts = {
        f"training.objective.kind={training.objective.kind}": training.objective.kind != "next_token",
        f"training.accumulate={training.accumulate}, which reads rows one after the other": training.accumulate > 1,
        "training.compile": training.compile,
        "training.stages with a context": any(stage.context is not None for stage in training.stages),
        "data.packed": run.data.packed,
        "data.disjoint": run.data.disjoint,
    }
    for name, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"training.memory=carry reads whole stretches of text, without {name}: choose one")
    position = run.model.position if isinstance(run.model, LayeredConfig) else None
    if position is not None and position.place in ("embedding", "layers"):
        raise ValueError(
            f"training.memory=carry reads beyond any context, where the absolute model.position="
            f"{position.kind} was not trained: choose a relative one (rotary, t5, alibi, …) or none"
        )


def require_windows(run: "RunConfig") -> None:
    """Raises ValueError for settings that do not fit windows of several sources."""
    if not run.data.sources:
        return
    training = run.training
    conflicts = {
        f"model.kind={run.model.kind}, which counts": run.model.fits,
        "training.memory=carry": training.memory == "carry",
        "data.packed": run.data.packed,
    }
    for name, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"data.sources mixes windows of several texts, without {name}: choose one")


def require_whole_rows(run: "RunConfig") -> None:
    """Raises ValueError for settings that do not fit rows that are read in pieces."""
    training = run.training
    if training.pieces == 1:
        return
    conflicts = {
        f"training.objective.kind={training.objective.kind}": training.objective.kind != "next_token",
        "training.memory=carry": training.memory == "carry",
        "training.recompute=layer, which computes layers again": training.recompute == "layer",
        "training.compile": training.compile,
        "data.packed": run.data.packed,
    }
    for name, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"training.pieces reads windows of text in pieces, without {name}: choose one")


def require_shared_rows(run: "RunConfig") -> None:
    """Raises ValueError for settings that do not fit rows whose tokens several processes share."""
    training, model = run.training, run.model
    if training.sequence == 1:
        return
    conflicts = {
        f"training.objective.kind={training.objective.kind}": training.objective.kind != "next_token",
        f"model.kind={model.kind}, which counts": model.fits,
        "training.memory=carry": training.memory == "carry",
        "training.recompute=layer": training.recompute == "layer",
        "training.graph=capture": training.graph == "capture",
        "training.compile": training.compile,
        "training.pieces": training.pieces > 1,
        "training.shard": training.shard != "none",
        "model.sublayers=reversible": getattr(model, "sublayers", "") == "reversible",
    }
    for name, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"training.sequence lets processes share each row, without {name}: choose one")
    shortest = min([model.context, *(stage.context for stage in training.stages if stage.context is not None)])
    if shortest < training.sequence:
        raise ValueError(f"training.sequence={training.sequence} processes cannot share rows of {shortest} tokens")


def require_shardable(run: "RunConfig") -> None:
    """Raises ValueError, in one line, for settings that do not fit a model that is divided among processes."""
    training = run.training
    if training.shard == "none":
        for name in ("reshard", "offload", "policy"):
            if getattr(training, name) != type(training).model_fields[name].default:
                raise ValueError(f"training.{name} is of a model that is divided: set training.shard=fsdp as well")
        return
    if training.policy == "weights" and training.precision != "bf16":
        raise ValueError("training.policy=weights gathers weights in bf16: set training.precision=bf16 as well")
    conflicts = {
        f"model.kind={run.model.kind}, which counts": run.model.fits,
        "training.graph=capture": training.graph == "capture",
        "training.compile": training.compile,
        "training.pieces": training.pieces > 1,
        "training.lora": training.lora.rank > 0,
        "model.sublayers=reversible": getattr(run.model, "sublayers", "") == "reversible",
    }
    for name, is_set in conflicts.items():
        if is_set:
            raise ValueError(f"training.shard={training.shard} divides a model among processes, without {name}")
