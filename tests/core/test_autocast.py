"""Autocast is off inside a block where it is on outside, and the block does nothing where it is off."""

from contextlib import nullcontext

import torch

from seqloom.core.autocast import autocasts, without_autocast

CPU = torch.device("cpu")


def test_a_block_without_autocast() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert autocasts(CPU)
        with without_autocast(CPU):
            assert not autocasts(CPU)
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    assert not autocasts(CPU)


def test_the_block_does_nothing_where_autocast_is_off() -> None:
    assert isinstance(without_autocast(CPU), nullcontext)
    assert isinstance(without_autocast(torch.device("meta")), nullcontext)
