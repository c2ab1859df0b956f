"""seqloom: can self-attention be replaced, with what, and at what price?

    import seqloom
    mixer = seqloom.mixer("she", dim=128, context=128)      # an nn.Module: (B, T, D) → (B, T, D)

Names are loaded when they are first used, so that importing the package is quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqloom.face import decoder as decoder
    from seqloom.face import distill as distill
    from seqloom.face import generate as generate
    from seqloom.face import list_mixers as list_mixers
    from seqloom.face import load as load
    from seqloom.face import mixer as mixer
    from seqloom.face import quantize as quantize
    from seqloom.face import save as save
    from seqloom.face import swap as swap
    from seqloom.studies.comparison_rows import compare as compare
    from seqloom.studies.comparison_rows import results as results

__version__ = "0.1.0"
COMPARISONS = ("compare", "results")
"""names that are above the face in the layers: they train and report"""
# fmt: off
__all__ = [
    "compare", "decoder", "distill", "generate", "list_mixers", "load", "mixer", "quantize", "results", "save", "swap",
]
# fmt: on


def __getattr__(name: str) -> Any:
    if name in COMPARISONS:
        from seqloom.studies import comparison_rows

        return getattr(comparison_rows, name)
    if name in __all__:
        from seqloom import face

        return getattr(face, name)
    raise AttributeError(f"module 'seqloom' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
