"""The options of a layer and of the model: their equations written a second time, streaming, price, saving, graphs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model_config import ModelConfig
from seqloom.counting.count import count
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.encoder import EncoderConfig
from seqloom.ops.backends import known_backends, use
from seqloom.runs import model as stored
from seqloom.training.config import TrainConfig
from seqloom.training.optimizers import optimizer
from tests.analysis.test_whole import predict, predict_next, priced
from tests.models.drawing import CONTEXT, DIM, VOCAB, decoder, ids
from tests.models.test_reading import KEEP, near
from tests.models.test_rwkv_block import Verbs

OPTIONS: dict[str, dict[str, Any]] = {
    "gelu": {"activation": "gelu"},
    "gelu_tanh": {"activation": "gelu_tanh"},
    "silu": {"activation": "silu"},
    "relu2": {"activation": "relu2", "ffn_bias": False},
    "SwiGLU": {"activation": "silu", "glu": True, "ffn_bias": False},
    "GEGLU": {"activation": "gelu", "glu": True},
    "after": {"norm_place": "after", "embed_norm": True},
    "after, mixers alone": {"norm_place": "after", "channel": "none"},
    "norms of outputs": {"norm_place": "outputs", "norm": "rms"},
    "both norms": {"norm_place": "both"},
    "both norms, mixers alone": {"norm_place": "both", "channel": "none"},
    "outputs, mixers alone": {"norm_place": "outputs", "channel": "none"},
    "parallel": {"sublayers": "parallel"},
    "parallel channel mixing": {"sublayers": "parallel", "channel": "channel_mix"},
    "unscaled": {"embed_scale": False, "norm": "rms"},
    "tied": {"tie": True},
    "tied without a bias": {"tie": True, "head_bias": False},
    "no bias in the head": {"head_bias": False},
    "all": {
        **{"activation": "silu", "glu": True, "ffn_bias": False, "sublayers": "parallel", "norm": "rms"},
        **{"embed_scale": False, "tie": True, "head_bias": False},
    },
}
every = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def normalized(x: Tensor, model: Decoder, name: str) -> Tensor:
    gain = model.get_parameter(f"{name}.weight")
    if model.config.norm == "rms":
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain
    away = x - x.mean(-1, keepdim=True)
    return away / (away.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + model.get_parameter(f"{name}.bias")


def activated(x: Tensor, name: str) -> Tensor:
    match name:
        case "relu":
            return x.clamp(min=0)
        case "relu2":
            return x.clamp(min=0) ** 2
        case "silu":
            return x / (1 + torch.exp(-x))
        case "gelu":
            return x * torch.special.ndtr(x)
        case _:
            return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def channel(x: Tensor, model: Decoder, layer: int) -> Tensor:
    block, config = model.blocks[layer], model.config
    if config.ffn.kind == "channel_mix":
        return block.ffn_sublayer(x)  # type: ignore[misc]  # its equation is test_channel_mix's
    w = dict(block.get_submodule("ffn").named_parameters())
    hidden = x @ w["w_1.weight"].T + w.get("w_1.bias", 0)
    if config.ffn.gated:
        hidden = hidden * activated(x @ w["w_gate.weight"].T + w.get("w_gate.bias", 0), config.ffn.activation)
    else:
        hidden = activated(hidden, config.ffn.activation)
    return hidden @ w["w_2.weight"].T + w.get("w_2.bias", 0)


def joined(y: Tensor, model: Decoder, layer: int, sublayer: int) -> Tensor:
    """What a sublayer gives, as it is added to the stream."""
    numbers = {"outputs": sublayer, "both": sublayer + 2}
    number = numbers.get(model.config.norm_place)
    return y if number is None else normalized(y, model, f"layers.{layer}.norm_{number}")


def written(model: Decoder, text: Tensor) -> Tensor:
    """The model's equations, of one whole text."""
    config, place = model.config, model.config.norm_place
    before, after = place in ("before", "both"), place == "after"
    x = model.token.weight[text] + model.position.table.weight[: text.shape[1]]  # type: ignore[union-attr, operator]
    x = x * DIM**0.5 if config.embed_scale else x
    x = normalized(x, model, "embed_norm") if config.embed_norm else x
    for number, block in enumerate(model.blocks):
        first, second = f"layers.{number}.norm_1", f"layers.{number}.norm_2"
        if config.sublayers == "parallel":
            y = block.mixer(normalized(x, model, first)) + channel(normalized(x, model, second), model, number)
            x = x + y
            continue
        x = x + joined(block.mixer(normalized(x, model, first) if before else x), model, number, 1)
        x = normalized(x, model, first) if after else x
        if config.ffn.kind != "none":
            z = normalized(x, model, second) if before else x
            x = x + joined(channel(z, model, number), model, number, 2)
            x = normalized(x, model, second) if after else x
    x = x if after else normalized(x, model, "norm")
    matrix = model.token.weight if config.tie else model.get_parameter("head.weight")
    return x @ matrix.T + (model.get_parameter("head.bias") if config.head_bias else 0)


@every
def test_decoders_is_its_equations(options: dict[str, Any]) -> None:
    model, text = decoder("attention", **options), ids(2, CONTEXT)
    with torch.no_grad():
        near(model(text), written(model, text))


@every
def test_pieces_and_steps_of_decoders_are_the_whole(options: dict[str, Any]) -> None:
    model, text = decoder("rwkv", **options).requires_grad_(False), ids(2, 6)
    expected = model(text)
    first, state = model.extend(text[:, :4], model.start(2))
    near(first, expected[:, :4])
    near(model.extend(text[:, 4:], state)[0], expected[:, 4:])
    for reuse in (False, True):
        for t in (4, 5):
            logits, state = model.step(text[:, t], state, reuse=reuse)
            near(logits, expected[:, t])
        _, state = model.extend(text[:, :4], model.start(2))
    dropped, keep = ids(4, CONTEXT), KEEP[:, :CONTEXT]
    whole = model(dropped, keep)
    for row, kept in enumerate(keep):
        near(whole[row][kept], model(dropped[row, kept][None])[0])


@pytest.mark.slow
@every
@torch.no_grad()
def test_the_price_of_decoders_is_the_count(options: dict[str, Any]) -> None:
    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}):
        model = decoder("he", position="none", **options)
        for T in (1, 4):
            price = model.cost(T)
            assert priced(price) == count(lambda T=T: predict(model, ids(1, T)))
            assert price.params == sum(p.numel() for p in model.parameters())
            _, state = model.extend(ids(1, T), model.start(1))
            token, counted = model.cost(T + 1, "token"), count(lambda s=state: predict_next(model, ids(1), s))
            assert (counted.mul, counted.add, counted.div, counted.exp) == (token.mul, token.add, token.div, token.exp)
    tables = sum(p.numel() for name, p in model.named_parameters() if name.split(".")[0] in ("token", "head"))
    assert model.inner_cost(4).params == model.cost(4).params - tables


def test_parallel_sublayers_shorten_the_path() -> None:
    serial, parallel = (decoder("he", sublayers=sublayers).cost(4) for sublayers in ("serial", "parallel"))
    assert len(parallel.path) < len(serial.path)
    assert parallel.total == serial.total


@every
def test_the_encoder_has_them_too(options: dict[str, Any]) -> None:
    if options.get("channel") == "channel_mix":
        return
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": 2, "context": CONTEXT, "ffn": 20, "mixer": {"kind": "attention"}}
    model = EncoderConfig.model_validate({**sizes, **options}).build().double().eval()
    text = ids(2, CONTEXT)
    with torch.no_grad():
        near(model(text), written(model, text))  # type: ignore[arg-type]  # an encoder has the same parts
    assert model.cost(CONTEXT).params == sum(p.numel() for p in model.parameters())


@torch.no_grad()
@pytest.mark.parametrize("tie", [False, True])
def test_capped_logits(tie: bool) -> None:
    plain, capped = (decoder("attention", tie=tie, **cap) for cap in ({}, {"logit_cap": 0.3}))
    text = ids(2, 5)
    capped.load_state_dict(
        {name.replace("head.", "head.inner."): tensor for name, tensor in plain.state_dict().items()}
    )
    expected = 0.3 * torch.tanh(plain(text) / 0.3)
    near(capped(text), expected)
    near(capped.extend(text, capped.start(2))[0], expected)
    near(capped.step(text[:, 0], capped.start(2))[0], expected[:, 0])
    near(capped.loss_with_extras(text, text)[0], torch.nn.functional.cross_entropy(expected.mT, text))
    near(plain.loss_with_extras(text, text)[0], torch.nn.functional.cross_entropy(plain(text).mT, text))
    with use(**{op: "reference" for op in known_backends() if "reference" in known_backends()[op]}):
        price = capped.cost(4)
        assert priced(price) == count(lambda: predict(capped, ids(1, 4)))
    assert price.params == sum(p.numel() for p in capped.parameters())


@pytest.mark.slow
def test_a_tied_matrix_is_one_parameter(tmp_path: Path) -> None:
    model = decoder("attention", tie=True).float()
    names = [name for name, p in model.named_parameters(remove_duplicate=False) if p is model.token.weight]
    assert names == ["token.weight"]
    assert "head.weight" not in model.state_dict()
    again = copy.deepcopy(model)
    assert again.head.weight is again.token.weight
    stored.save(model, tmp_path / "run")
    loaded, _ = stored.load(tmp_path / "run")
    assert loaded(ids(1, 4)).equal(model(ids(1, 4)))
    adam = optimizer(model, TrainConfig(decay="matrices"))
    held = [group["weight_decay"] for group in adam.groups for p in group["params"] if p is model.token.weight]
    assert held == [0.01]
    bias = model.get_parameter("head.bias")
    assert [g["weight_decay"] for g in adam.groups if any(p is bias for p in g["params"])] == [0.0]
    wide = decoder("attention", tie=True).to(torch.float64)
    wide(ids(2, 5)).logsumexp(-1).sum().backward()
    assert bool((wide.token.weight.grad.abs().sum(1) > 0).all()), "each row is read as an output"  # type: ignore[union-attr]


def test_a_tied_model_is_drawn_again() -> None:
    model = decoder("attention", tie=True)
    model.reset()
    assert float(model.token.weight.detach().std()) == pytest.approx(0.01, rel=0.3)
    assert float(model.get_parameter("head.bias").detach().abs().max()) == 0


@pytest.mark.parametrize(
    ("settings", "sublayers", "names"),
    [
        ({}, 6, ("mixer.w_out", "ffn.w_2")),
        ({"mixer": {"kind": "rwkv"}, "channel": "channel_mix"}, 6, ("mixer.w_out", "channel_mix.w_v")),
        ({"mixer": {"kind": "mamba"}, "channel": "none"}, 3, ("mixer.out_proj",)),
    ],
)
def test_scaled_initialization(settings: dict[str, Any], sublayers: int, names: tuple[str, ...]) -> None:
    sizes = {"vocab": 50, "dim": 64, "depth": 3, "context": 8, "ffn": 256, "mixer": {"kind": "attention"}}
    models = []
    for scaled in (False, True):
        torch.manual_seed(0)
        models.append(Decoder(DecoderConfig.model_validate({**sizes, **settings, "scaled_init": scaled})))
    plain, scaled = (dict(model.named_parameters()) for model in models)
    for name, weight in plain.items():
        last = name.split(".", 2)[-1].removesuffix(".weight") in names and name.endswith(".weight")
        torch.testing.assert_close(scaled[name], weight / sublayers**0.5 if last else weight)
    models[1].reset()
    assert float(scaled[f"layers.1.{names[0]}.weight"].detach().std()) == pytest.approx(0.01 / sublayers**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"glu": True, "channel": "none"}, "gated is of the feed-forward network, and ffn.kind=none has none"),
        ({"activation": "silu", "channel": "channel_mix"}, "activation is of the feed-forward network"),
        ({"sublayers": "parallel", "channel": "none"}, "needs two sublayers: choose ffn.kind=ffn"),
        ({"sublayers": "parallel", "norm_place": "after"}, "choose norm_place=before"),
        ({"sublayers": "parallel", "norm_place": "outputs"}, "choose norm_place=before"),
        ({"residual": "gru", "norm_place": "both"}, "choose norm_place=before"),
        ({"exit_heads": "own", "logit_cap": 1.0}, "exit_heads=own have no logit_cap"),
        ({"mixer": {"kind": "attention", "qk_norm_eps": 1e-3}}, "set qk_norm, or leave it out"),
        ({"activation": "swish"}, "activation"),
    ],
)
def test_arguments_that_do_not_fit_raise_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decoder("attention", **options)


@pytest.mark.slow
def test_only_settings_that_differ_from_the_default_are_written() -> None:
    plain = decoder("attention").config.model_dump(mode="json")
    for options in OPTIONS.values():
        settings = decoder("attention", **options).config.model_dump(mode="json")
        assert {name: value for name, value in settings.items() if name not in plain} == options
    assert isinstance(DecoderConfig.model_validate(settings), ModelConfig)


def test_they_are_settings_of_the_one_call() -> None:
    sizes = {"vocab": 9, "dim": 8, "depth": 1, "context": 4}
    model = seqloom.decoder("attention", **sizes, heads=2, activation="silu", glu=True, tie=True, std=0.02)
    assert (model.config.ffn.gated, model.config.tie, model.config.std) == (True, True, 0.02)
    assert model.config.pattern[0].model_dump()["heads"] == 2
    with pytest.raises(ValueError, match="did you mean 'activation'"):
        seqloom.decoder("attention", **sizes, activaton="silu")


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("name", ["all", "after"])
def test_it_is_one_graph(name: str) -> None:
    torch._dynamo.reset()
    model = decoder("attention", **OPTIONS[name]).requires_grad_(False)
    text, keep = ids(2, 5), torch.tensor([[True] * 5, [False, True, True, False, True]])
    read = Verbs(model)
    expected, (pieces, token, _) = read(text, keep, model.start(2, capacity=8))
    actual, (again, next_token, _) = torch.compile(read, fullgraph=True, backend="eager")(
        text, keep, model.start(2, capacity=8)
    )
    for one, other in ((actual, expected), (again, pieces), (next_token, token)):
        near(one, other)
    exported = torch.export.export(model, (text,), strict=False).module()
    near(exported(ids(2, 5, seed=1)), model(ids(2, 5, seed=1)))
