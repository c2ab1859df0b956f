"""GTrXL's gates: by hand, near the identity at initialization, in every verb of a model, and where they do not fit."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.cli import command
from seqloom.core.model_config import ModelConfig
from seqloom.models.decoder import Decoder
from seqloom.models.gates import GATES, Gate
from seqloom.models.kinds import model_config
from seqloom.models.verbs import ForwardVerb
from tests.models.drawing import decoder, ids

X, SAID = 0.5, 1.5


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru(x: float, y: float) -> float:
    """With W_r, W_z, W_h = 1, -2, 0.5; U_r, U_z = 0.25, 4; U_h = -1."""
    r = sigma(1 * y + 0.25 * x)
    z = sigma(-2 * y + 4 * x - 2)
    return (1 - z) * x + z * math.tanh(0.5 * y - 1 * r * x)


BY_HAND: dict[str, tuple[dict[str, list[float]], Any]] = {
    "input": ({"w": [3.0]}, lambda x, y: sigma(3 * x) * x + y),
    "output": ({"w": [3.0]}, lambda x, y: x + sigma(3 * x - 2) * y),
    "highway": ({"w": [3.0]}, lambda x, y: sigma(3 * x + 2) * x + (1 - sigma(3 * x + 2)) * y),
    "sigmoid_tanh": ({"w": [3.0], "u": [-0.5]}, lambda x, y: x + sigma(3 * y - 2) * math.tanh(-0.5 * y)),
    "gru": ({"w": [1.0, -2.0, 0.5], "u": [0.25, 4.0], "u_h": [-1.0]}, gru),
}


def drawn(name: str, dim: int) -> Gate:
    return GATES[name](dim).double()  # type: ignore[index]  # a name of the table


def test_every_gate_is_here() -> None:
    assert BY_HAND.keys() == GATES.keys()


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("message", [SAID, -SAID])
def test_by_hand(name: str, message: float) -> None:
    """One channel; what is below 0 is 0 to the gate."""
    weights, join = BY_HAND[name]
    made = drawn(name, 1)
    with torch.no_grad():
        for part, numbers in weights.items():
            made.get_submodule(part).weight.copy_(torch.tensor(numbers)[:, None])  # type: ignore[operator, union-attr]
    result = made(torch.tensor([[X]], dtype=torch.float64), torch.tensor([[message]], dtype=torch.float64))
    assert float(result.detach()) == pytest.approx(join(X, max(message, 0.0)), abs=1e-14)


def test_two_numbers_of_the_gru_gate() -> None:
    """Worked out on paper for matrices of 0: z = σ(-2) = 0.119203, ĥ = 0, so that x stays at 0.880797."""
    made = drawn("gru", 2)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.zero_() if name != "b" else None
    x = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    torch.testing.assert_close(made(x, x), x * 0.8807970779778823, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", GATES)
def test_a_layer_is_near_the_identity_at_initialization(name: str) -> None:
    torch.manual_seed(0)
    model = decoder_of(name, std=0.01)
    (block, *_) = model.blocks
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    kept = {"input": 0.5, "gru": sigma(2), "highway": sigma(2)}.get(name, 1.0)  # of x, by each of two gates
    torch.testing.assert_close(block(x, ForwardVerb().call(0)), kept**2 * x, rtol=0, atol=0.05)
    for each in block.gates:
        if name != "input":
            assert (each.b == 2).all()  # type: ignore[union-attr]


def decoder_of(name: str, **changes: Any) -> Decoder:
    sizes = {"vocab": 13, "dim": 8, "depth": 2, "context": 6, "ffn": 20, "dropout": 0.0, "residual": name}
    model = model_config({**sizes, "mixer": {"kind": "attention", "heads": 2}, **changes}).build()
    assert isinstance(model, Decoder)
    return model.double().eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("kind", ["attention", "mamba", "he", "transformer_xl"])
def test_pieces_and_tokens_are_the_sequence(name: str, kind: str) -> None:
    model = decoder(kind, residual=name, position={"kind": "none"})
    text = ids(2, 6)
    whole = model(text)
    first, state = model.extend(text[:, :2], model.start(2))
    later, _ = model.extend(text[:, 2:], state)
    torch.testing.assert_close(torch.cat([first, later], 1), whole, rtol=1e-9, atol=1e-9)
    state, logits = model.start(2), []
    for t in range(6):
        token, state = model.step(text[:, t], state)
        logits.append(token)
    torch.testing.assert_close(torch.stack(logits, 1), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", GATES)
def test_the_block_is_its_equation(name: str) -> None:
    """The norms are of what the sublayers read; the stream itself has none."""
    model = decoder("attention", residual=name)
    (block, *_) = model.blocks
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    first, second = block.gates
    assert block.ffn_sublayer is not None
    h = first.join(x, block.mixer(block.norm_1(x)).clamp(min=0))
    expected = second.join(h, block.ffn_sublayer(block.norm_2(h)).clamp(min=0))
    torch.testing.assert_close(block(x, ForwardVerb().call(0)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("channel", ["ffn", "none"])
def test_every_weight_is_priced_and_learns(name: str, channel: str) -> None:
    model = decoder_of(name, channel=channel, std=0.3).train()
    assert model.cost(6).params == sum(parameter.numel() for parameter in model.parameters())
    plain = decoder_of("add", channel=channel)
    assert model.cost(6).total > plain.cost(6).total
    assert len(model.cost(6).path) > len(plain.cost(6).path)
    model(ids(2, 6)).pow(2).sum().backward()
    for own, parameter in model.named_parameters():
        assert parameter.grad is not None, own
        assert "position" in own or "token" in own or bool((parameter.grad != 0).any()), own


def test_the_price_of_an_output_gate_by_hand() -> None:
    """Of two tokens of three channels: relu; W x; - b; σ; times y, plus x."""
    price = drawn("output", 3).own_price(2)
    assert (price.mul, price.add, price.div, price.exp, price.params) == (2 * 9 + 6, 2 * 6 + 6 + 6 + 6, 6, 6, 12)


def test_addition_is_what_it_was() -> None:
    config = decoder_of("add").config
    assert "residual" not in config.model_dump(mode="json")
    names = decoder_of("add").state_dict().keys()
    assert not any("gate" in name for name in names)


def test_weights_are_drawn_again_with_their_bias() -> None:
    model = decoder_of("gru")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.reset()
    for block in model.blocks:
        for each in block.gates:
            assert (each.b == 2).all()  # type: ignore[union-attr]
            assert float(each.w.weight.detach().std()) < 0.02  # type: ignore[union-attr, operator]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"norm_place": "after"}, "residual=gru has the norm of the input alone: choose norm_place=before"),
        ({"sublayers": "parallel"}, "sublayers=parallel adds what sublayers say: choose serial, or residual=add"),
        ({"sublayers": "reversible"}, "sublayers=reversible adds what sublayers say: choose serial, or residual=add"),
        ({"residual": "gur"}, "residual: input should be 'add', 'gru'"),
    ],
)
def test_settings_of_gates_that_do_not_fit(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        decoder_of("gru", **changes)


@pytest.mark.parametrize("kind", ["universal", "encoder", "decision"])
def test_other_kinds_have_them(kind: str) -> None:
    sizes = {"vocab": 13, "dim": 8, "depth": 2, "context": 6, "ffn": 20, "dropout": 0.0, "residual": "gru"}
    config: ModelConfig = model_config({"kind": kind, **sizes, "mixer": {"kind": "attention", "heads": 2}})
    model: Any = config.build()
    assert all(isinstance(block.gate_2, Gate) for block in model.blocks)
    given: dict[str, Tensor] = {}
    if kind == "decision":
        given = {"returns": torch.zeros(1, 3), "states": torch.zeros(1, 3, 1), "actions": torch.zeros(1, 3).long()}
    assert model(ids(1, 3), **given).isfinite().all()
    assert model.cost(6).params == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.slow
def test_a_run_with_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--data", "stories:40", "--set", "training.batches=3", "--set", "model.residual=gru"]
    out = str(tmp_path / "run")
    assert command(["train", "tiny", *few, "--set", "model.mixer.kind=mamba", "--out", out]) == 0
    assert command(["generate", out, "Once", "--max-tokens", "3", "--mode", "stream"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Once")
    assert command(["train", "seq2seq/dates", "--set", "model.residual=gru", "--out", str(tmp_path / "other")]) == 2
    assert "model.residual" in capsys.readouterr().err
