"""Costs add up: a mixer's price is that of its submodules and of its own lines."""

from collections.abc import Iterable

import pytest
import torch
from torch import nn

from seqloom.core.cost import Cost, Span, layernorm, linear, rootnorm
from seqloom.core.parts import part_price
from seqloom.mixers import mixer_config
from tests.contract.sound import Average, Weighted, tanh

SPAN = Span(3)
PARTS = [
    (nn.Linear(8, 4), linear(3, 8, 4, bias=True)),
    (nn.Linear(8, 4, bias=False), linear(3, 8, 4)),
    (nn.LayerNorm(8), layernorm(3, 8)),
    (nn.LayerNorm(8, bias=False), layernorm(3, 8, bias=False)),
    (nn.LayerNorm(8, elementwise_affine=False), layernorm(3, 8, gain=False, bias=False)),
    (nn.RMSNorm(8), rootnorm(3, 8)),
    (nn.Embedding(5, 8), Cost()),
]


@pytest.mark.parametrize(("part", "price"), PARTS, ids=lambda case: type(case).__name__)
def test_a_part_has_a_price(part: nn.Module, price: Cost) -> None:
    result = part_price(part, SPAN)
    assert result == price
    if not isinstance(part, nn.Embedding):
        assert result.params == sum(parameter.numel() for parameter in part.parameters())


def test_a_part_without_a_price() -> None:
    with pytest.raises(ValueError, match=r"Conv1d has no price: give it a method price\(span\), or leave it out"):
        part_price(nn.Conv1d(8, 8, 3), SPAN)


class Branches(Weighted):
    """Two projections in parallel, a hidden layer of two parts, a product, and a mixer inside."""

    traits = Average.traits
    forward = extend = step = Average.forward

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.inner = nn.Linear(8, 8), Average()
        self.hidden = nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 8))

    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        product = Cost(mul=span.rows * 8, path=("multiplication",))
        return self.w, None, product, *self.hidden, self.inner


def test_all_parts_are_counted_and_the_named_ones_are_the_path() -> None:
    w, hidden, inner = linear(3, 8, 8), linear(3, 8, 3, True) + linear(3, 3, 8, True), Average().price(SPAN)
    actual = Branches().cost(3)
    expected = w + Cost(mul=24, path=("multiplication",)) + hidden + inner + linear(3, 8, 8, bias=True).parallel()
    assert (actual.mul, actual.add, actual.div, actual.exp) == (expected.mul, expected.add, expected.div, expected.exp)
    assert actual.path == expected.path
    assert actual.params == sum(parameter.numel() for parameter in Branches().parameters())


def test_by_default_the_price_is_that_of_all_parts_in_sequence() -> None:
    class Plain(Average):
        price_terms = Weighted.price_terms

    assert Plain().price(SPAN) == linear(3, 8, 8)
    assert Average().price(SPAN).mul == linear(3, 8, 8).mul + tanh(24).mul
    with torch.device("meta"):
        assert Plain().cost(3).params == 64


class Ends(Average):
    """Has a chain of two links."""

    links: tuple[Cost | nn.Module | None, ...]

    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        return self.links


def test_the_output_layer_is_the_linear_layer_that_ends_the_chain() -> None:
    mixer, layer = Ends(), nn.Linear(8, 8)
    for links, last in (
        ((Cost(), layer), layer),
        ((nn.Linear(8, 8), layer, None), layer),
        ((layer,), layer),
        ((layer, Cost()), None),
        ((layer, nn.LayerNorm(8)), None),
        ((), None),
    ):
        mixer.links = links
        assert mixer.output_layer is last


def test_settings_draw_nothing_by_themselves() -> None:
    assert mixer_config({"kind": "identity"}).draw_pattern(4, True) == {}
