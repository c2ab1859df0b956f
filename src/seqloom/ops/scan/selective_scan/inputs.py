"""What a backend of the selective scan reads, in the dtype in which it computes."""

from typing import NamedTuple

from torch import Tensor


class Scan(NamedTuple):
    """The inputs. A = -e^log_rate. A state that is None is 0.

    A `bias` makes delta softplus(delta + bias), a `skip` is added as skip ∘ u, a `gate` multiplies with silu(gate).
    After `lengths` tokens of a row y is 0 and the state stays.
    """

    u: Tensor
    """(B, T, D)"""
    delta: Tensor
    """(B, T, D)"""
    log_rate: Tensor
    """(D, N)"""
    b: Tensor
    """(B, T, N)"""
    c: Tensor
    """(B, T, N)"""
    state: Tensor | None
    """(B, D, N)"""
    bias: Tensor | None
    """(D,)"""
    skip: Tensor | None
    """(D,)"""
    gate: Tensor | None
    """(B, T, D)"""
    lengths: Tensor | None
    """(B,)"""
