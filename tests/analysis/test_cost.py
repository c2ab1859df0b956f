"""Prices equal the operations that run: steps of mixers, and whole models. `tests/contract` has whole sequences."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from seqloom.core.cost import Cost
from seqloom.core.mixer import Mixer
from seqloom.core.state import nbytes
from seqloom.counting.count import Executed, count
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.backends import known_backends, use
from tests.kinds import CAUSAL

DIM, CONTEXT = 8, 5
LENGTHS = (1, 2, 3, 5, 6, 11)
"""up to the context, at it, and beyond it"""
MIXERS = [
    pytest.param(kind, example, marks=[pytest.mark.slow] if n else [])
    for kind in CAUSAL
    for n, example in enumerate(kinds()[kind].examples)
]
"""each kind at once, its other examples in `make test-all`"""
OTHERWISE = ("adaptive_span", "combiner", "compressive", "mla", "transformer_xl")
IN_ORDER = [case for case in MIXERS if case.values[0] not in OTHERWISE and case.values[1].get("position") != "alibi"]
"""those whose steps compute what the equation does, in its order; tests/mixers counts the steps of the other kinds"""


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}), torch.no_grad():
        yield


def build(kind: str, example: dict[str, Any], context: int | None = CONTEXT, dim: int = DIM) -> Mixer:
    torch.manual_seed(0)
    return kinds()[kind](**example).build(dim, context).double().eval()


def priced(cost: Cost) -> Executed:
    return Executed(cost.mul, cost.add, cost.div, cost.exp, cost.other)


def read(model: torch.nn.Module, x: torch.Tensor, T: int) -> Executed:
    return count(lambda: model(x[:, :T])) if T else Executed()


def less(whole: Executed, part: Executed) -> Executed:
    return Executed(*(getattr(whole, n) - getattr(part, n) for n in ("mul", "add", "div", "exp", "other")))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "example"), IN_ORDER)
def test_step_executes_the_price_of_its_token(kind: str, example: dict[str, Any]) -> None:
    mixer = build(kind, example)
    if not mixer.traits.streams:
        pytest.skip("it has no steps")
    x = torch.randn(1, min(max(LENGTHS), mixer.traits.longest or max(LENGTHS)), DIM, dtype=torch.float64)
    state = mixer.start(1)
    for T, token in enumerate(x.unbind(1), 1):
        if T not in LENGTHS:
            _, state = mixer.step(token, state)
            continue
        ran: list[Any] = []
        counted = count(lambda: ran.extend(mixer.step(token, state)))  # noqa: B023  it runs here
        state = ran[1]
        price = mixer.cost(T, per="token")
        assert (counted.mul, counted.add, counted.div, counted.exp) == (price.mul, price.add, price.div, price.exp)


@pytest.mark.slow
def test_a_step_forms_the_products_of_all_alibi_distances_again() -> None:
    """A whole text forms those of each distance once, so the price of a token has those of a new distance alone."""
    mixer, state = build("attention", {"heads": 2, "position": "alibi"}), None
    for t in range(1, 2 * CONTEXT):
        ran: list[Any] = []
        token = torch.randn(1, DIM, dtype=torch.float64)
        before = mixer.start(1) if state is None else state
        counted = count(lambda: ran.extend(mixer.step(token, before)))  # noqa: B023  it runs here
        state, price = ran[1], mixer.cost(t, per="token")
        again = 2 * (min(t, CONTEXT) - (t <= CONTEXT))
        assert (counted.mul, counted.add, counted.div, counted.exp) == (
            price.mul + again,
            price.add,
            price.div,
            price.exp,
        )


@pytest.mark.parametrize("T", [1, 4, 7])
@pytest.mark.parametrize("heads", [1, 4])
def test_attention_without_a_context_costs_all_that_was_read(heads: int, T: int) -> None:
    mixer, x = build("attention", {"heads": heads}, None), torch.randn(1, T, DIM, dtype=torch.float64)
    assert priced(mixer.cost(T)) == read(mixer, x, T)
    assert priced(mixer.cost(T, per="token")) == less(read(mixer, x, T), read(mixer, x, T - 1))


def test_a_wrong_price_is_noticed() -> None:
    mixer, x = build("we", {}), torch.randn(1, 6, DIM, dtype=torch.float64)
    counted, price = read(mixer, x, 6), mixer.cost(6)
    for wrong in (Cost(add=1), Cost(mul=-1), Cost(div=1), Cost(exp=1), Cost(other=1)):
        assert priced(price + wrong) != counted
    assert count(lambda: mixer(x) + 0.0) != counted


MODELS = {
    "attention": {"mixer": {"kind": "attention", "heads": 2}},
    "no positions": {"mixer": {"kind": "she"}, "position": "none"},
    "mixed": {"mixer": [{"kind": "me"}, {"kind": "attention", "heads": 1}, {"kind": "he", "out_proj": False}]},
    "rwkv, no positions": {
        "mixer": {"kind": "rwkv"},
        "position": "none",
        "channel": "channel_mix",
        "embed_norm": True,
    },
    "mixers alone, no positions": {
        "mixer": [{"kind": "we"}, {"kind": "attention", "heads": 2}],
        "position": "none",
        "channel": "none",
        "norm": "rms",
        "embed_norm": True,
    },
    "channel mixing, learned": {"mixer": {"kind": "he"}, "channel": "channel_mix", "embed_norm": True},
    "mixed, no positions": {"mixer": [{"kind": "we"}, {"kind": "attention", "heads": 8}], "position": "none"},
}


def decoder(**settings: Any) -> Decoder:
    torch.manual_seed(0)
    sizes = {"vocab": 13, "dim": DIM, "depth": 3, "context": CONTEXT, "ffn": 12}
    return Decoder(DecoderConfig.model_validate({**sizes, **settings})).double().eval()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("name", "T"), [(name, T) for name in MODELS for T in LENGTHS if T <= CONTEXT or "no positions" in name]
)
def test_model_cost_is_the_count(name: str, T: int) -> None:
    model = decoder(**MODELS[name])
    predict = torch.nn.Sequential(model, torch.nn.Softmax(-1))
    ids = torch.randint(13, (1, T))
    whole, price = read(predict, ids, T), model.cost(T)
    assert priced(price) == whole
    assert priced(model.cost(T, per="token")) == less(whole, read(predict, ids, T - 1))
    assert price.params == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", ["mixed", "rwkv, no positions", "mixers alone, no positions"])
def test_model_state_is_what_its_layers_hold(name: str) -> None:
    model = decoder(**MODELS[name])
    _, state = model.extend(torch.randint(13, (1, 4)), model.start(1))
    assert model.cost(4).state * 8 == nbytes(model.trim(state))


TABLE_1 = {
    "attention": ({"kind": "attention", "heads": 32}, 4_861_320),
    "she": ({"kind": "she"}, 42_020_232),
    "he": ({"kind": "he"}, 4_861_320),
    "we": ({"kind": "we"}, 4_566_408),
    "me": ({"kind": "me"}, 3_683_976),
}
"""the whole models at the paper's Table 1, and their trainable numbers"""


def table_1_model(name: str) -> Decoder:
    with torch.device("meta"):
        return Decoder(DecoderConfig.model_validate({"mixer": TABLE_1[name][0]}))


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE_1)
def test_parameters_of_the_whole_models(name: str) -> None:
    model = table_1_model(name)
    assert sum(p.numel() for p in model.parameters()) == TABLE_1[name][1]
    assert model.cost(128).params == TABLE_1[name][1]
