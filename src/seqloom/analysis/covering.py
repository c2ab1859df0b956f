"""Mixers whose pattern covers the context, so that a model with them measures the mixer without a pattern.

same_as(model)      {"longformer": "attention"} in a context that its windows cover in every layer
"""

from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model


def same_as(model: Model) -> dict[str, str]:
    """By kind of the model's mixers, the kind that they equal in every layer; kinds that equal no other are left out.

    The model may be on the meta device.
    """
    if not isinstance(model.config, LayeredConfig):
        return {}
    found: dict[str, set[str | None]] = {}
    for config, mixer in zip(model.config.mixers, model.mixers, strict=True):
        found.setdefault(config.kind, set()).add(mixer.same_as)
    return {kind: name for kind, names in found.items() if len(names) == 1 and (name := next(iter(names))) is not None}


def sentence(kind: str, name: str, context: int) -> str:
    """What is said of a kind whose pattern covers the context."""
    equal = f"{name} without a pattern" if name == kind else name
    return f"the pattern of {kind} covers the context of {context:,} tokens: it equals {equal} here"
