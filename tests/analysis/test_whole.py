"""Whole models with every registered mixer: their three prices are the count of what the references execute."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from seqloom.analysis.whole import Refused, Whole, every_mixer, whole
from seqloom.core.cost import Cost
from seqloom.core.state import State, nbytes
from seqloom.counting.count import Executed, count
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.backends import known_backends, use
from tests.kinds import CAUSAL

SIZES = {"vocab": 13, "dim": 8, "depth": 2, "context": 5, "ffn": 12, "position": "none"}
LENGTHS = (1, 2, 5, 7)
"""up to the context, at it, and beyond it"""
OTHERWISE = {"adaptive_span", "combiner", "compressive", "mla", "transformer_xl"}
"""whose steps compute something else than a whole text does, or in another order: tests/mixers counts them"""

LEARNED = {"adaptive_span"}
"""whose price depends on values of weights, which settings do not tell: test_adaptive_span.py has its bound"""


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}), torch.no_grad():
        yield


def decoder(kind: str, **settings: Any) -> Decoder:
    torch.manual_seed(0)
    mixer = {"kind": kind, **kinds()[kind].examples[0]}
    return Decoder(DecoderConfig.model_validate({**SIZES, "mixer": mixer, **settings})).double().eval()


def predict(model: Decoder, ids: torch.Tensor) -> torch.Tensor:
    return model(ids).softmax(-1)


def predict_last(model: Decoder, ids: torch.Tensor) -> torch.Tensor:
    return model.logits(model.features(ids)[:, -1:]).softmax(-1)


def predict_next(model: Decoder, ids: torch.Tensor, state: State) -> torch.Tensor:
    return model.step(ids, state)[0].softmax(-1)


def lengths(model: Decoder) -> list[int]:
    return [T for T in LENGTHS if model.longest is None or model.longest >= T]


def priced(cost: Cost) -> Executed:
    return Executed(cost.mul, cost.add, cost.div, cost.exp, cost.other)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_training_is_the_count(kind: str) -> None:
    model = decoder(kind)
    for T in lengths(model):
        price = model.cost(T)
        assert priced(price) == count(partial(predict, model, torch.randint(13, (1, T))))
        assert price.params == sum(p.numel() for p in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAUSAL)
def test_prefill_is_the_count(kind: str) -> None:
    """Of the equation, as a forward has it: what `extend` does besides to keep a state is not priced."""
    model = decoder(kind)
    for T in lengths(model):
        ids, price = torch.randint(13, (1, T)), model.cost(T, outputs=1)
        assert priced(price) == count(partial(predict_last, model, ids))
        _, state = model.read(ids, model.start(1))
        assert price.state * 8 == nbytes(model.trim(state))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind not in OTHERWISE])
def test_a_step_is_the_count_at_every_position(kind: str) -> None:
    model = decoder(kind)
    positions, state = lengths(model), model.start(1)
    for t in range(1, max(positions) + 1):
        ids = torch.randint(13, (1,))
        if t in positions:
            counted, price = count(partial(predict_next, model, ids, state)), model.cost(t, "token")
            assert (counted.mul, counted.add, counted.div, counted.exp) == (price.mul, price.add, price.div, price.exp)
        _, state = model.step(ids, state)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind not in LEARNED])
def test_layers_built_once_have_the_price_of_the_model(kind: str) -> None:
    model = decoder(kind, depth=3, position="learned", embed_norm=True)
    result = whole(model.config, 4)
    assert result == {
        "training": model.cost(4),
        "prefill": model.cost(4, outputs=1),
        "token": model.cost(4, "token"),
    }


def test_layers_of_several_mixers_take_turns() -> None:
    mixers = [{"kind": "me"}, {"kind": "attention", "heads": 2}]
    model = decoder("she", mixer=mixers, depth=5)
    assert whole(model.config, 4)["token"] == model.cost(4, "token")


def test_wrong_prices_are_noticed() -> None:
    model, ids = decoder("she"), torch.randint(13, (1, 5))
    counted = count(partial(predict, model, ids))
    for wrong in (Cost(add=1), Cost(mul=-1), Cost(div=1), Cost(exp=1), Cost(other=1)):
        assert priced(model.cost(5) + wrong) != counted
    assert priced(model.cost(5, outputs=1)) != counted


@pytest.mark.slow
def test_every_mixer_has_a_row_with_the_settings_of_the_model() -> None:
    config = DecoderConfig.model_validate({**SIZES, "mixer": {"kind": "attention", "heads": 8}})
    rows = {row.mixer: row for row in every_mixer(config, 5)}
    assert list(rows) == list(kinds())
    eight, four = rows["attention"], every_mixer(config.model_copy(update={"mixer": kinds()["she"]()}), 5)
    assert isinstance(eight, Whole)
    assert eight.costs == whole(config, 5)
    default = next(row for row in four if row.mixer == "attention")
    assert isinstance(default, Whole)
    assert default.costs["training"].exp < eight.costs["training"].exp


@pytest.mark.slow
def test_arguments_that_do_not_fit_raise_an_error_with_the_reason() -> None:
    config = DecoderConfig.model_validate({**SIZES, "dim": 6, "mixer": {"kind": "attention", "heads": 3}})
    rows = {row.mixer: row for row in every_mixer(config, 7)}
    heads, positions = rows["linear"], rows["aft_full"]
    assert isinstance(heads, Refused)
    assert "heads 4" in heads.reason
    assert isinstance(positions, Refused)
    assert positions.reason == "it reads at most 5 tokens, not 7"
    assert isinstance(rows["attention"], Whole)
