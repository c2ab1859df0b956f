"""Every alternative to torch's attention kernel in benchmarks/attention.py computes the same outputs and gradients."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from seqloom.ops.attention import attend
from seqloom.ops.backends import use


@pytest.mark.parametrize("width", [4, 16])
def test_rivals_are_attention(script: Callable[[str], Any], width: int) -> None:
    B, H, T = 3, 7, 9
    given = [torch.randn(B, H, T, width, requires_grad=True) for _ in "qkv"]
    mask, dy = torch.full((T, T), -math.inf).triu(1), torch.randn(B, H, T, width)
    with use(attention="reference"):
        expected = attend(*given)
    true = torch.autograd.grad(expected, given, dy)
    rivals = script("attention").rivals(width)
    assert len(rivals) == (7 if width < 16 else 6)
    for name, rival in rivals.items():
        actual = rival(*given, mask)
        torch.testing.assert_close(actual, expected, msg=name)
        for here, there in zip(torch.autograd.grad(actual, given, dy), true, strict=True):
            torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-4, msg=name)
