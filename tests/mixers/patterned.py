"""Mixers that choose a pattern; attention of transformers next to them with copied weights: outputs and gradients."""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.core.layer import Layer
from seqloom.mixers import mixer_config

D, H = 8, 2


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def same(ours: nn.Module, theirs: Any, x: Tensor, weights: list[tuple[Tensor, Tensor]], bound: float) -> None:
    """Outputs, and gradients of the input and of each (ours, theirs) pair of weights, which may be a part of one."""
    dy = draw(*x.shape).flip(1)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    y, expected = ours(inputs[0]), theirs(inputs[1])
    torch.testing.assert_close(y, expected, rtol=0, atol=bound)
    (y * dy).sum().backward()
    (expected * dy).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=bound)
    for one, other in weights:
        torch.testing.assert_close(one.grad, torch.cat([part.weight.grad for part in other]), rtol=0, atol=bound)


def copy(ours: nn.Module, parts: list[nn.Linear]) -> None:
    """Their query, key and value, without biases, into one projection of ours."""
    for part in parts:
        nn.init.zeros_(part.bias)
    with torch.no_grad():
        ours.weight.copy_(torch.cat([part.weight for part in parts]))


def first_of(mixer: nn.Module) -> nn.Module:
    """The mixer whose output projection is the identity: their self-attention ends before it."""
    nn.init.eye_(mixer.w_out.weight)
    return mixer


def build(kind: str, causal: bool = True, context: int | None = None, **settings: Any) -> Any:
    torch.manual_seed(0)
    return mixer_config({"kind": kind, **settings}).build(D, context, causal).double()


def of_layer(number: int, depth: int, causal: bool = True, **settings: Any) -> list[Any]:
    mixer = mixer_config(settings).make(Layer(D, None, causal, number, depth))
    return list(mixer.patterns)  # type: ignore[attr-defined, arg-type]
