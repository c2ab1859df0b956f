"""The decaying sum in C: the delta rule of a token that erases nothing (`delta_rule/delta.c`)."""

from torch import Tensor

from seqloom.ops.delta_rule import native


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    each = g[:, None].expand(q.shape[:3]) if g is not None and g.ndim == 1 else g
    return native.delta(q, k, v, None, None, each, state)
