"""The weights of a run that was trained with adapters of low rank, as those of a plain model.

w.base_layer.weight, w.lora_A.default.weight, w.lora_B.default.weight   →   w.weight = base + (α/R) B A
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from seqloom.runs.checkpoint import Checkpoint

BASE, FIRST, SECOND = ".base_layer.", ".lora_A.default.weight", ".lora_B.default.weight"


def plain_name(name: str) -> str:
    """The name of a parameter in a model without adapters."""
    return name.replace(BASE, ".")


def with_merged_adapters(saved: Checkpoint, settings: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint with merged weights, given the run's settings; itself where the run has no adapters."""
    training = settings.get("training")
    lora = training.get("lora") if isinstance(training, dict) else None
    if not isinstance(lora, dict) or not lora.get("rank") or "model" not in saved.tensors:
        return saved
    scale = 1.0 if lora.get("alpha") is None else lora["alpha"] / lora["rank"]
    return replace(saved, tensors={**saved.tensors, "model": merge(saved.tensors["model"], scale)})


def merge(tensors: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """The weights of a plain model, of those of a model with adapters."""
    merged = {}
    for name, tensor in tensors.items():
        if name.endswith((FIRST, SECOND)):
            continue
        owner = name.removesuffix(f"{BASE}weight")
        changes = [] if owner == name else [scale * (tensors[owner + SECOND] @ tensors[owner + FIRST])]
        merged[plain_name(name)] = sum(changes, tensor)
    return merged
