"""What a model cannot do, by the traits of its mixers and by the size of its state for two long contexts.

limitations(config)       ["keep a state of one size: it grows with the text", …], phrases to follow "it cannot"
"""

import torch

from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.positions.none import NoPositionConfig

CONTEXTS = (4096, 8192)
"""two contexts in tokens, both longer than any mixer's own window"""


def limitations(sizes: ModelConfig) -> list[str]:
    """Short phrases; [] for a model that streams from a state of constant size and whose weights fit any context."""
    if not isinstance(sizes, LayeredConfig):
        return []
    short, long = (_build_model(sizes, context) for context in CONTEXTS)
    traits, limits = [sublayer.traits for sublayer in short.sublayers], []
    if not all(trait.streams for trait in traits):
        limits.append("read on from a state: each further token reads the window again")
    elif any(trait.state == "grows" for trait in traits):
        limits.append("keep a state of one size: it grows with the text")
    elif _state(short) != _state(long):
        limits.append("keep a state that is shorter than its context")
    if _weights(short) != _weights(long):
        limits.append("change its context: it has weights for each lag or position of it")
    if short.traits.longest is not None:
        limits.append("read a text that is longer than its context")
    limits += dict.fromkeys(limit for mixer in short.mixers for limit in mixer.limitations)
    return limits


def _build_model(sizes: LayeredConfig, context: int) -> Model:
    """The model without a table of positions, which would limit every mixer in the same way."""
    with torch.device("meta"):
        return sizes.model_copy(update={"context": context, "position": NoPositionConfig()}).build()


def _state(model: Model) -> int:
    return sum(sublayer.cost(model.config.context, "token").state for sublayer in model.sublayers)


def _weights(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
