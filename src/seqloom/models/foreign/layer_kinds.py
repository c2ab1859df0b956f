"""Models whose layers have mixers of several kinds: which layer has which, and the parts of all."""

from typing import Any

from seqloom.models.foreign.around import without_weights
from seqloom.models.foreign.attention import FULL, Mixer, shortest
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import Part

LINEAR = "linear_attention"
"""what transformers calls a layer with another mixer than attention"""


def check_layer_kinds(kinds: list[str], mixers: dict[str, Mixer]) -> list[str]:
    """The kinds of layers. ValueError for one that is not built."""
    unknown = sorted(set(kinds) - mixers.keys())
    if unknown:
        raise ValueError(f"layer_types {unknown} are not built: only {', '.join(mixers)} are")
    return kinds


def build_hybrid(
    settings: dict[str, Any],
    kinds: list[str],
    mixers: dict[str, Mixer],
    parts: dict[str, list[Part]],
    top: list[Part],
    around: list[Part],
    positioned: str = FULL,
) -> Foreign:
    """The model whose layers have mixers of these kinds, of which the `positioned` have a place for positions."""
    if positioned not in kinds:
        settings = {**settings, "position": {"kind": "none"}}  # nothing has a place for it
    layers = [
        part.under(f"layers.{layer}.", f"model.layers.{layer}.")
        for layer, kind in enumerate(kinds)
        for part in (*around, *parts[kind])
    ]
    mixer = shortest([mixers[kind] for kind in kinds])
    return Foreign({**settings, "mixer": mixer}, top + layers, without_weights=without_weights(settings["tie"]))
