"""A module's parts, such as linear layers and norms: their prices and their initial weights."""

import math
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import nn

from seqloom.core.cost import Cost, Span, layernorm, linear, rootnorm

FREE = (nn.Identity, nn.Dropout, nn.Embedding)
"""modules that compute nothing at inference"""


@runtime_checkable
class Priced(Protocol):
    """A module that knows its price, such as a mixer inside another."""

    def price(self, span: Span, /) -> Cost:
        """The operations and the critical path for these tokens of one row."""


def parts(module: nn.Module) -> Iterator[nn.Module]:
    """The direct submodules in the order of registration; the contents of module lists and sequences count singly.

    A module that is shared between layers is not a part: the mixer prices what it computes with it.
    """
    for name, part in module.named_children():
        if name == "shared" and isinstance(module, Priced):
            continue
        if isinstance(part, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            yield from parts(part)
        else:
            yield part


def part_price(part: nn.Module, span: Span) -> Cost:
    """The price of one part, computed once for each token of `span`. ValueError for a module that has no price."""
    if isinstance(part, Priced):
        return part.price(span)
    if isinstance(part, nn.Linear):
        return linear(span.rows, part.in_features, part.out_features, part.bias is not None)
    if isinstance(part, nn.LayerNorm):
        dim = math.prod(part.normalized_shape)
        return layernorm(span.rows, dim, part.weight is not None, part.bias is not None)
    if isinstance(part, nn.RMSNorm):
        return rootnorm(span.rows, math.prod(part.normalized_shape), part.weight is not None)
    if isinstance(part, FREE):
        return Cost()
    name = type(part).__name__
    raise ValueError(f"{name} has no price: give it a method price(span), or leave it out of the mixer's `parts`")


def init_weights(module: nn.Module, std: float) -> None:
    """Initializes the weights of linear layers and embeddings from N(0, std²), biases with 0, gains of norms with 1."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, (nn.LayerNorm, nn.RMSNorm)):
            part.reset_parameters()
