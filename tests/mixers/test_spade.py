"""Two mixers side by side keep the promises of a mixer and mix what both found; models of several kinds of mixers."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

import seqloom
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.state import nbytes
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.spade import Spade, weaker
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.backends import known_backends, use
from seqloom.training.settings import resolve
from tests.at_once import first
from tests.contract import (
    test_causal,
    test_cost,
    test_graph,
    test_keep,
    test_numbers,
    test_reading,
    test_refusals,
    test_state,
    test_state_size,
    test_store,
    test_views,
)
from tests.contract.cases import Case
from tests.training.stepping import with_loss

NEAR = {"kind": "attention", "heads": 2, "window": 3}
PAIRS: dict[str, dict[str, Any]] = {
    "s4 and local attention": {"far": {"kind": "s4", "state_dim": 4}, "near": NEAR},
    "places of their own and a window": {"far": {"kind": "aft_full", "bias_dim": 0}, "near": {"kind": "we"}},
    "attention over all and a spade": {
        "far": {"kind": "attention", "heads": 2},
        "near": {"kind": "spade", "far": {"kind": "rwkv"}, "near": NEAR},
    },
}
CHECKS = (
    *(test_reading.check_step, test_keep.check_keep_reading),
    *(test_causal.check_causal, test_causal.check_longest, test_cost.check_cost, test_views.check_views),
    *(test_keep.check_keep_forward, test_keep.check_rows),
    *(test_reading.check_pieces, test_reading.check_gradients_through_pieces),
    *(
        test_refusals.check_refusals,
        test_refusals.check_keep_is_bool,
        test_numbers.check_small_numbers,
    ),
    *(test_state.check_state_form, test_state.check_state_is_kept),
    *(test_state.check_reuse_writes_only_into_what_was_given_up, test_state_size.check_state_size),
    *(test_state_size.check_fork_and_trim, test_store.check_store, test_store.check_nothing_is_changed),
    test_store.check_around,
)


def case(name: str) -> Case:
    return Case("spade", tuple(PAIRS[name].items()), False)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if n else []) for n, name in enumerate(PAIRS)]
)
@pytest.mark.parametrize("check", first(2, CHECKS), ids=lambda check: check.__name__)
def test_the_promises(check: Any, name: str) -> None:
    check(case(name))


@pytest.mark.slow
@pytest.mark.graph
def test_it_exports() -> None:
    test_graph.check_exports(case("s4 and local attention"))


@torch.no_grad()
@pytest.mark.parametrize("name", PAIRS)
def test_both_outputs_are_normed_concatenated_and_mixed(name: str) -> None:
    mixer, x = case(name)(), draw(2, 5, 8)
    assert isinstance(mixer, Spade)
    result = [
        layer_norm(part(x), (8,), norm.weight, norm.bias)
        for part, norm in ((mixer.far, mixer.norm_far), (mixer.near, mixer.norm_near))
    ]
    torch.testing.assert_close(mixer(x), torch.cat(result, -1) @ mixer.w_out.weight.mT, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("T", [1, 3, 5])
def test_the_price_of_spade_is_the_count(name: str, T: int) -> None:
    mixer, x = case(name)().eval(), draw(1, T, 8)
    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}):
        counted, price = count(lambda: mixer(x)), mixer.cost(T)
        for kind in ("mul", "add", "div", "exp", "other"):
            assert getattr(counted, kind) == getattr(price, kind), kind
        _, state = mixer.extend(x, mixer.start(1))
    assert price.state * 8 == nbytes(mixer.trim(state))


def test_the_state_is_flat_and_counts_once() -> None:
    mixer = case("s4 and local attention")()
    state = mixer.start(2)
    assert {name.split(".")[0] for name in state} == {"far", "near", "length"}
    assert {"near.k", "near.v"} < set(state)
    assert not any(name.endswith(".length") for name in state)


A, B = Traits("always", True, "constant"), Traits("always", True, "window", longest=9)


@pytest.mark.parametrize(
    ("far", "near", "expected"),
    [
        (A, A, A),
        (A, B, B),
        (B, Traits("always", True, "grows", longest=7), Traits("always", True, "grows", longest=7)),
        (A, Traits("never", False, "none"), Traits("never", False, "none")),
        (Traits("either", True, "grows", selects_ahead=True), A, Traits("either", True, "grows", selects_ahead=True)),
    ],
)
def test_together_they_have_the_traits_of_the_weaker(far: Traits, near: Traits, expected: Traits) -> None:
    assert weaker(far, near) == expected
    assert weaker(near, far) == expected


def test_settings() -> None:
    usual = mixer_config({"kind": "spade"})
    assert (usual.far.kind, usual.near.kind, usual.near.window) == ("s4", "attention", 128)
    settings = usual.model_dump(mode="json")
    assert settings["near"] == {"kind": "attention", "heads": 4, "window": 128}
    assert mixer_config(settings) == usual
    changed = mixer_config({"kind": "spade", "near": {"window": 7}, "far": {"kind": "rwkv"}})
    assert (changed.near.kind, changed.near.window) == ("attention", 7)
    built = changed.build(8, 5, layer=1, depth=3)
    assert isinstance(built, Spade)
    assert (built.far.layer, built.far.depth) == (1, 3)
    config = resolve("tiny", ["model.mixer.kind=spade", "model.mixer.near.window=5", "model.mixer.far.kind=rwkv"])
    assert config.model.mixers[0].near.window == 5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"far": {"kind": "s44"}}, "did you mean"),
        ({"near": {"windows": 3}}, "did you mean 'window'"),
        ({"near": 3}, "given by its settings"),
        ({"far": {"kind": "attention", "heads": 3}}, "not divisible"),
        ({"far": {"kind": "she"}}, "needs a context"),
    ],
)
def test_refusals_of_spade(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        mixer_config({"kind": "spade", **settings}).build(8, None)
    assert "\n" not in str(caught.value)


def test_both_parts_receive_settings_and_updates() -> None:
    mixer = mixer_config({"kind": "spade", "far": {"kind": "rwkv"}, "near": NEAR}).build(8, 5)
    assert isinstance(mixer, Spade)
    updates: list[tuple[int, dict[str, Tensor]]] = []
    for part in (mixer.far, mixer.near):
        part.after_update = lambda step, statistics: updates.append((step, statistics))  # type: ignore[method-assign]
        with_loss(part, lambda: torch.tensor(2.0))
    one, two = torch.tensor(1), torch.tensor(2)
    mixer.after_update(3, {"far.count": one, "near.count": two})
    assert updates == [(3, {"count": one}), (3, {"count": two})]
    x = torch.ones(1, 3, 8)
    y, extras = mixer.forward_with_extras(x)
    assert extras.losses.keys() == {"far.size", "near.size"}
    assert torch.equal(y, mixer(x))
    assert [group.get("weight_decay") for group in mixer.param_groups()] == [None, 0.0, None, None]
    rates = mixer.far.get_parameter("log_rate").detach().clone()
    mixer.reset(0.01)
    assert torch.equal(mixer.far.get_parameter("log_rate"), rates), "its own are not drawn as the plain ones"
    state = {**mixer.start(1), "near.k": mixer.start(1)["near.k"].requires_grad_()}
    before = state["far.last"].clone()
    with pytest.raises(ValueError, match="gradients"):
        mixer.step(torch.ones(1, 8), state, reuse=True)
    assert torch.equal(state["far.last"], before), "one of the two was written into before the other refused"


SEVERAL = [{"kind": "s4", "state_dim": 4}, {"kind": "attention", "heads": 2, "window": 3}, {"kind": "she"}]


def model_of(mixers: list[dict[str, Any]], **settings: Any) -> Decoder:
    torch.manual_seed(0)
    sizes = {"vocab": 13, "dim": 8, "depth": 3, "context": 6, "ffn": 12, "std": 0.3, "dropout": 0.0}
    return Decoder(DecoderConfig.model_validate({**sizes, "mixer": mixers, **settings}))


MODELS: dict[str, list[dict[str, Any]]] = {
    "several": SEVERAL,
    "spade": [{"kind": "spade", "far": SEVERAL[0], "near": NEAR}, NEAR, NEAR],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_several_kinds_learns_and_writes(name: str) -> None:
    model = model_of(MODELS[name], position="none").double()
    ids = torch.arange(19)[None] % 7
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.02), []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]
    model.eval()
    for mode in ("slide", "stream"):
        assert len(list(seqloom.generate(model, [1, 2, 3], mode=mode, max_tokens=15, seed=0))) == 15
    with torch.no_grad():
        whole, state = model(ids), model.start(1)
        _, state = model.extend(ids[:, :4], state)
        for position in range(4, 19):
            logits, state = model.step(ids[:, position], state, reuse=True)
            torch.testing.assert_close(logits, whole[:, position], rtol=0, atol=1e-9)
    price = model.cost(19, per="token")
    assert price.params == sum(p.numel() for p in model.parameters())
    assert price.state * 8 == nbytes(model.trim(state))


def test_the_preset() -> None:
    model = resolve("paper/spade").model
    assert [mixer.kind for mixer in model.mixers] == ["spade", "attention", "attention", "attention"]
    assert all(mixer.window < model.context for mixer in (model.mixers[0].near, *model.mixers[1:]))
    smaller = resolve(
        "paper/spade", ["model.depth=2", "model.mixer=[{kind: spade, far: {kind: rwkv}}, {kind: attention}]"]
    )
    assert [mixer.kind for mixer in smaller.model.mixers] == ["spade", "attention"]


@pytest.mark.slow
def test_reformer_and_performer_combine() -> None:
    """Seed 004, V.C: side by side in one layer and by turns in the others; it trains, and reads on as the whole."""
    torch.manual_seed(0)
    config = resolve("paper/reformer_performer", ["model.dim=16", "model.ffn=16"]).model
    assert [mixer.kind for mixer in config.mixers] == ["spade", "reformer", "performer", "reformer"]
    assert (config.mixers[0].far.kind, config.mixers[0].near.kind) == ("performer", "reformer")
    model, ids = config.build().double(), torch.randint(50, (2, 40))
    model(ids).square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    with torch.no_grad():
        whole, (piece, state) = model(ids), model.extend(ids[:, :30], model.start(2))
        rest, _ = model.extend(ids[:, 30:], state)
    torch.testing.assert_close(torch.cat([piece, rest], 1), whole, rtol=0, atol=1e-9)


def test_it_is_one_call() -> None:
    assert isinstance(seqloom.mixer("spade", dim=8, context=6), Mixer)
