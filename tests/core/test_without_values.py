"""Modules without values: the sizes of the real ones, nothing drawn, and other tensors filled as ever."""

import torch
from torch import nn

from seqloom.core.without_values import without_values


def test_sizes_are_those_of_the_real_module_and_nothing_is_drawn() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    with without_values():
        planned = nn.TransformerEncoderLayer(8, 2, 16)
        nn.init.trunc_normal_(tensor=planned.linear1.weight, std=0.1)
    torch.testing.assert_close(torch.rand(4), expected)
    assert all(tensor.is_meta for tensor in planned.parameters())
    real = nn.TransformerEncoderLayer(8, 2, 16)
    assert [tensor.shape for tensor in planned.parameters()] == [tensor.shape for tensor in real.parameters()]


def test_a_tensor_of_another_device_is_filled() -> None:
    with without_values():
        filled = torch.zeros(100, device="cpu").normal_()
    assert filled.std() > 0.5
