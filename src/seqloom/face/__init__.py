"""The public face: what `import seqloom` offers, each in one call. A name is loaded when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqloom.face.distilling import distill as distill
    from seqloom.face.mixers import list_mixers as list_mixers
    from seqloom.face.mixers import mixer as mixer
    from seqloom.face.models import decoder as decoder
    from seqloom.face.models import load as load
    from seqloom.face.models import save as save
    from seqloom.face.models import swap as swap
    from seqloom.generation.decode import generate as generate
    from seqloom.models.int8 import quantize as quantize

MODULES = {
    "decoder": "seqloom.face.models",
    "distill": "seqloom.face.distilling",
    "generate": "seqloom.generation.decode",
    "list_mixers": "seqloom.face.mixers",
    "load": "seqloom.face.models",
    "mixer": "seqloom.face.mixers",
    "quantize": "seqloom.models.int8",
    "save": "seqloom.face.models",
    "swap": "seqloom.face.models",
}
"""where each name is; a mixer alone loads no models"""
__all__ = ["decoder", "distill", "generate", "list_mixers", "load", "mixer", "quantize", "save", "swap"]


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    raise AttributeError(f"module 'seqloom.face' has no attribute {name!r}")
