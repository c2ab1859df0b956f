"""The Universal Transformer: layers that share weights, its position signal, its halting, its state and its price."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.config import read
from seqloom.core.state import select
from seqloom.counting.count import count
from seqloom.models.decoder import Decoder
from seqloom.models.halting import Halting, Pondering
from seqloom.models.kinds import model_config
from seqloom.models.universal import Universal, UniversalConfig, UniversalEncoder
from seqloom.ops.backends import known_backends, use
from seqloom.training.memory import weights
from seqloom.training.settings import resolve

SIZES: dict[str, Any] = {"vocab": 11, "dim": 8, "depth": 3, "context": 12, "ffn": 16, "dropout": 0.0, "std": 0.3}
MIXERS: list[dict[str, Any]] = [
    {"kind": "attention", "heads": 2},
    {"kind": "he"},
    {"kind": "mamba"},
    {"kind": "rwkv7", "heads": 2},
]


def built(kind: str = "universal", mixer: Any = MIXERS[0], **settings: Any) -> Any:
    torch.manual_seed(0)
    values = {**SIZES, "position": "sinusoidal", "kind": kind, "mixer": mixer, **settings}
    return model_config(values).build().double().eval()


def universal(**settings: Any) -> Universal:
    model = built(**settings)
    assert isinstance(model, Universal)
    return model


def ids(seed: int = 0) -> Tensor:
    return torch.randint(11, (2, 12), generator=torch.Generator().manual_seed(seed))


def sharing(model: Universal) -> Decoder:
    """The decoder whose layers have the same weights, and whose layers' positions are the signal."""
    own = model.config
    decoder: Decoder = built(
        "decoder", own.mixer.model_dump(), position="learned_each_layer", norm_place=own.norm_place
    )
    state = model.state_dict()
    layers = {name.removeprefix("layers.0."): value for name, value in state.items() if name.startswith("layers.0.")}
    with torch.no_grad():
        for block in decoder.blocks:
            block.load_state_dict(layers)
        for step, table in enumerate(decoder.positions, 1):
            (parameter,) = table.parameters()
            parameter.copy_(signal(step) / math.sqrt(own.dim))
    rest = {name: value for name, value in state.items() if not name.startswith("layers.")}
    decoder.load_state_dict(rest, strict=False)
    return decoder


def signal(step: int) -> Tensor:
    """Eq. 6, number by number: the sum of the waves of positions 0 … 11 and of one step (T, D)."""
    D = SIZES["dim"]

    def wave(number: int, channel: int) -> float:
        angle = number / 10000 ** (2 * (channel // 2) / D)
        return math.cos(angle) if channel % 2 else math.sin(angle)

    rows = [[wave(i, channel) + wave(step, channel) for channel in range(D)] for i in range(SIZES["context"])]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("position", ["before", "after"])
@pytest.mark.parametrize("mixer", MIXERS[:3], ids=str)
def test_it_is_a_model_whose_layers_share_weights(mixer: dict[str, Any], position: str) -> None:
    model = universal(mixer=mixer, norm_place=position)
    decoder = sharing(model)
    first, second = model(ids()), decoder(ids())
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    weighed = torch.randn(first.shape, generator=torch.Generator().manual_seed(1), dtype=first.dtype)
    (first * weighed).sum().backward()
    (second * weighed).sum().backward()
    for name, parameter in model.blocks[0].named_parameters():
        together = sum(dict(block.named_parameters())[name].grad for block in decoder.blocks)
        torch.testing.assert_close(parameter.grad, together, rtol=0, atol=1e-10)
    prices, others = model.inner_cost(12), decoder.inner_cost(12)
    assert (prices.mul, prices.add, prices.exp) == (others.mul, others.add, others.exp)
    assert 2 * prices.params < others.params


def test_the_residuals_of_the_paper_and_not_of_seed_002() -> None:
    """A = norm(z + mixer(z)), norm(A + transition(A)) with z = h + P: A of this step, and P in the residual."""
    model = universal(norm_place="after", depth=1)
    block, h = model.blocks[0], model.token(ids()) * math.sqrt(8)
    z = h + signal(1)
    A = block.norm_1(z + block.mixer(z))
    expected = model.head(block.norm_2(A + block.ffn_sublayer(A)))
    torch.testing.assert_close(model(ids()), expected, rtol=0, atol=1e-12)
    printed = block.norm_1(h + block.mixer(z))  # seed 002
    assert float((printed - A).detach().abs().max()) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("halt", [False, True])
@pytest.mark.parametrize("channel", ["ffn", "separable"])
@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_pieces_and_steps_of_universal_are_the_whole(mixer: dict[str, Any], channel: str, halt: bool) -> None:
    model = universal(mixer=mixer, channel=channel, halt=halt)
    with torch.no_grad():
        whole = model(ids())
        first, state = model.extend(ids()[:, :5], model.start(2))
        assert len(state.layers) == 3
        second, _ = model.extend(ids()[:, 5:], state)
        torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-11)
        after, before = [], state
        for token in ids()[:, 5:].unbind(1):
            logits, state = model.step(token, state)
            after.append(logits)
        torch.testing.assert_close(torch.stack(after, 1), second, rtol=0, atol=1e-11)
        again, _ = model.step(ids()[:1, 5], select(before, torch.tensor([0])))
        torch.testing.assert_close(again, after[0][:1], rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", ["universal", "universal_encoder"])
@pytest.mark.parametrize("channel", ["ffn", "separable"])
def test_dropped_tokens_of_universal_are_as_if_never_written(kind: str, channel: str) -> None:
    model = built(kind, channel=channel, halt=True)
    keep = torch.rand(2, 12, generator=torch.Generator().manual_seed(4)) < 0.6
    logits, extras = model.forward_with_extras(ids(), keep)
    count, ponder = 0, torch.zeros((), dtype=torch.float64)
    for row in range(2):
        alone, single = model.forward_with_extras(ids()[row, keep[row]][None])
        torch.testing.assert_close(logits[row, keep[row]], alone[0], rtol=0, atol=1e-12)
        count += int(keep[row].sum())
        ponder = ponder + single.losses["ponder"] * keep[row].sum()
    torch.testing.assert_close(extras.losses["ponder"], ponder / count, rtol=0, atol=1e-12)
    assert int(extras.statistics["tokens"]) == count
    assert int(model.steps(ids(), keep).sum()) == int(extras.statistics["steps"])


def test_halting_worked_by_hand() -> None:
    """p = 0.3, 0.5, 0.4 with ε = 0.01: three steps, R = 0.2; p = 0.995: one, R = 1; p = 0.1 each: at most four."""
    halting = Halting(1, 4, 0.01).double()
    with torch.no_grad():
        halting.p.weight.fill_(1.0)
        halting.p.bias.zero_()
    chances = torch.tensor([[0.3, 0.5, 0.4, 0.9], [0.995, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]], dtype=torch.float64)
    streams = torch.logit(chances)
    pondering, x = Pondering(halting, None), torch.zeros(3, 1, dtype=torch.float64)
    for step in range(4):
        x = pondering.take(x, streams[:, step : step + 1])
    s = streams
    expected = torch.stack(
        [
            0.3 * s[0, 0] + 0.5 * s[0, 1] + 0.2 * s[0, 2],
            s[1, 0],
            0.1 * s[2, 0] + 0.1 * s[2, 1] + 0.1 * s[2, 2] + 0.7 * s[2, 3],
        ]
    )
    torch.testing.assert_close(pondering.mean[:, 0], expected, rtol=0, atol=1e-12)
    assert pondering.steps.tolist() == [3, 1, 4]
    torch.testing.assert_close(x[:, 0], torch.stack([s[0, 2], s[1, 0], s[2, 3]]))  # copied from where it halted
    extras = pondering.extras
    torch.testing.assert_close(extras.losses["ponder"], torch.tensor((3.2 + 2 + 4.7) / 3, dtype=torch.float64))
    assert extras.statistics["steps"] == 8


@pytest.mark.slow
def test_gradients_of_the_output_and_of_the_ponder_loss() -> None:
    model = universal(halt=True)
    parameters = [model.halting.p.weight, model.halting.p.bias, model.blocks[0].norm_1.weight]

    def both(*_: Tensor) -> tuple[Tensor, Tensor]:
        logits, extras = model.forward_with_extras(ids()[:, :3])
        return logits.square().sum(), extras.losses["ponder"]

    assert torch.autograd.gradcheck(both, parameters)
    assert model.loss_weights["ponder"] == 0.01


def test_a_step_that_all_positions_skip_changes_nothing() -> None:
    """With a large b all halt after one step: the output is that of one step."""
    one, many = universal(depth=1), universal(halt=True, depth=4)
    missing, _ = many.load_state_dict(one.state_dict(), strict=False)
    assert set(missing) == {"halting.p.weight", "halting.p.bias"}
    with torch.no_grad():
        many.halting.p.bias.fill_(50.0)
    torch.testing.assert_close(many(ids()), one(ids()), rtol=0, atol=1e-12)
    assert many.steps(ids()).unique().tolist() == [1]


@pytest.mark.slow
@pytest.mark.parametrize("halt", [False, True])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "none", "rotary"])
def test_the_price_of_universal_is_the_count(position: str, halt: bool) -> None:
    model = universal(position=position, halt=halt)
    reference = {op: "reference" for op, names in known_backends().items() if "reference" in names}
    with torch.no_grad(), use(**reference):
        _, state = model.extend(ids()[:1, :11], model.start(1))
        token = count(lambda: model.step(ids()[:1, 11], state)[0].softmax(-1)), model.cost(12, "token")
        row = count(lambda: model(ids()[:1]).softmax(-1)), model.cost(12)
    for counted, price in [token] if halt else [token, row]:  # a row that halts is counted with its loss
        for name in ("mul", "add", "div", "exp", "other"):
            assert getattr(counted, name) == getattr(price, name), name
    parameters = sum(p.numel() for p in model.parameters())
    assert model.cost(12).params == parameters == weights(model.config)[0]
    assert {name: value.shape for name, value in model.config.tensors().items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }


def test_its_state_is_one_of_each_step() -> None:
    one, three = (universal(depth=depth).cost(12, "token").state for depth in (1, 3))
    assert three == 3 * one


def test_an_encoder_reads_both_ways() -> None:
    model = built("universal_encoder", channel="separable")
    assert isinstance(model, UniversalEncoder)
    x = ids()
    changed = x.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 11
    with torch.no_grad():
        assert float((model(changed) - model(x))[:, 0].abs().max()) > 1e-6
    with pytest.raises(ValueError, match="cannot read on from a state"):
        model.start(1)


def test_auxiliary_losses_of_every_step_and_one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mixer with statistics is updated once per optimizer step, with the sums of all steps."""
    mixer = {"kind": "routing", "heads": 2, "clusters": 2, "window": 3}
    model = universal(mixer=mixer).train()
    _, extras = model.forward_with_extras(ids())
    assert {f"layers.{n}.{name}" for n in range(3) for name in ("sums", "counts")} == extras.statistics.keys()
    given: list[dict[str, Tensor]] = []
    monkeypatch.setattr(model.blocks[0].mixer, "after_update", lambda step, values: given.append(dict(values)))
    model.after_update(1, extras.statistics)
    (values,) = given
    torch.testing.assert_close(values["counts"], sum(extras.statistics[f"layers.{n}.counts"] for n in range(3)))


@pytest.mark.slow
def test_universal_is_saved_and_loaded(tmp_path: Any) -> None:
    model = universal(halt=True)
    seqloom.save(model, tmp_path / "universal")
    again = seqloom.load(tmp_path / "universal").double()
    assert again.config == model.config
    torch.testing.assert_close(again(ids()), model(ids()), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"mixer": [{"kind": "he"}, {"kind": "me"}]}, "a universal model has one block: give one mixer, not a list"),
        ({"depth": 0}, "depth"),
        ({"sublayers": "reversible"}, "a universal model one block: set serial"),
        ({"position": "learned_each_layer"}, "which one block lacks: choose learned"),
        ({"ponder": 0.1}, "ponder is of positions that halt: set halt=true"),
        ({"epsilon": 1.0, "halt": True}, "epsilon"),
    ],
)
def test_settings_of_universal_that_do_not_fit(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error) as caught:
        read(UniversalConfig, {**SIZES, "position": "sinusoidal", "mixer": {"kind": "he"}, **settings})
    assert "\n" not in str(caught.value)


def test_steps_of_a_model_that_does_not_halt() -> None:
    with pytest.raises(ValueError, match=r"set model\.halt=true"):
        universal().steps(ids())


def test_the_recipe_takes_any_mixer() -> None:
    config = resolve("universal/small", ["model.mixer.kind=he", "model.halt=true"]).model
    assert (config.kind, config.depth, config.mixers[5].kind) == ("universal", 6, "he")
    with pytest.raises(ValueError, match=r"model\.depth"):
        resolve("universal/small", ["model.depth=0"])
