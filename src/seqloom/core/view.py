"""Views of a mixer: values over one or two axes, with names for a chart."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True)
class View:
    """Values to draw: of the weights, or of what the mixer computed from an input."""

    name: str
    """such as `taps`; unique among the views of one mixer"""
    meaning: str
    """what one of the values is, in one sentence"""
    axes: tuple[str, ...]
    """what each dimension of `values` counts: one or two of the field's nouns, such as lag, channel, query, key"""
    values: Tensor
    """(N,) or (N, M)"""


def of_heads(weights: Float[Tensor, "H T T"], note: str = "") -> list[View]:
    """One view for each head, of its weights over queries and keys; their mean comes first where there are several."""
    meaning, axes = f"how much of each key's value a query takes{note}", ("query", "key")
    heads = [View(f"weights of head {h}", meaning, axes, head) for h, head in enumerate(weights)]
    if len(heads) == 1:
        return heads
    return [View(f"mean weights of {len(heads)} heads", meaning, axes, weights.mean(0)), *heads]
