"""Equations without parameters, each with a reference and the paths that are faster."""

from seqloom.ops import attention, biased_average, lag_sum, linear_decay, random_features, recurrence, wkv_average

__all__ = ["attention", "biased_average", "lag_sum", "linear_decay", "random_features", "recurrence", "wkv_average"]
