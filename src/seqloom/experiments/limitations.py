"""What a model cannot do: from the traits of its mixers, and from what it holds under a long context and a longer one.

limitations(config)       ["keep a state of one size: it grows with the text", …], each phrase after "it cannot"
"""

import torch

from seqloom.core.model import Model, ModelConfig
from seqloom.positions.none import NoPositionConfig

CONTEXTS = (4096, 8192)
"""tokens; longer than any window that a mixer has of its own"""


def limitations(sizes: ModelConfig) -> list[str]:
    """Short phrases; [] for a model that streams from a state of one size, and whose weights fit any context."""
    near, far = (_built(sizes, context) for context in CONTEXTS)
    traits, found = [sublayer.traits for sublayer in near.sublayers], []
    if not all(each.streams for each in traits):
        found.append("read on from a state: each further token reads the window again")
    elif any(each.state == "grows" for each in traits):
        found.append("keep a state of one size: it grows with the text")
    elif _state(near) != _state(far):
        found.append("keep a state that is shorter than its context")
    if _weights(near) != _weights(far):
        found.append("change its context: it has weights for each lag or place of it")
    if near.traits.longest is not None:
        found.append("read a text that is longer than its context")
    return found


def _built(sizes: ModelConfig, context: int) -> Model:
    """The model without a table of positions, which would belong to any mixer."""
    with torch.device("meta"):
        return sizes.model_copy(update={"context": context, "position": NoPositionConfig()}).build()


def _state(model: Model) -> int:
    return sum(sublayer.cost(model.config.context, "token").state for sublayer in model.sublayers)


def _weights(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
