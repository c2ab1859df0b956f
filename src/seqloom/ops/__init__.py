"""Equations without parameters, each with a reference and the paths that are faster."""

from seqloom.ops import (
    attention,
    biased_average,
    delta_rule,
    diagonal_states,
    lag_sum,
    linear_decay,
    projection,
    random_features,
    recurrence,
    scans,
    selective_scan,
    state_space,
    wkv_average,
)
from seqloom.ops.attention import sparse

__all__ = [
    "attention",
    "biased_average",
    "delta_rule",
    "diagonal_states",
    "lag_sum",
    "linear_decay",
    "projection",
    "random_features",
    "recurrence",
    "scans",
    "selective_scan",
    "sparse",
    "state_space",
    "wkv_average",
]
