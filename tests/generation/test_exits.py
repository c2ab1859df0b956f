"""Early exits: the skipped layers, the states of later tokens, and the generated text."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.config import read
from seqloom.core.model import Model
from seqloom.generation.exits import Exiting, Exits, confidence
from seqloom.models.kinds import model_config

SIZES: dict[str, Any] = {"vocab": 11, "dim": 8, "depth": 4, "context": 12, "ffn": 16, "dropout": 0.0, "std": 0.4}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"mixer": {"kind": "attention", "heads": 2}},
    "he": {"mixer": {"kind": "he"}, "norm_place": "after"},
    "mamba": {"mixer": {"kind": "mamba"}, "channel": "none", "position": "none"},
    "rwkv7": {"mixer": {"kind": "rwkv7", "heads": 2}, "channel": "channel_mix7", "position": "none"},
    "universal": {"mixer": {"kind": "gru"}, "kind": "universal"},
    "layers": {"mixer": {"kind": "linear", "heads": 2}, "position": "learned_each_layer"},
}


def built(name: str, **settings: Any) -> Model:
    torch.manual_seed(0)
    return model_config({**SIZES, **MODELS[name], **settings}).build().double().eval()


def ids(T: int = 9) -> Tensor:
    return torch.randint(11, (2, T), generator=torch.Generator().manual_seed(0))


def after(layers: int) -> Any:
    """An exit after so many layers, whatever is predicted."""
    seen = []

    def enough(before: Tensor, stream: Tensor) -> bool:
        seen.append(stream)
        return len(seen) == layers

    return enough


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_without_an_exit_it_is_a_step(name: str) -> None:
    model = built(name)
    with torch.no_grad():
        state = other = model.start(2)
        for token in ids().unbind(1):
            logits, state, layers = model.step_until(token, state, lambda before, stream: False)
            expected, other = model.step(token, other)
            assert layers == 4
            assert torch.equal(logits, expected)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_an_exit_predicts_by_the_stream_of_its_layer(name: str, layers: int) -> None:
    model = built(name)
    with torch.no_grad():
        streams, _ = model.exits(ids())
        assert len(streams) == 4
        torch.testing.assert_close(streams[-1], model.features(ids()), rtol=0, atol=0)
        _, state = model.extend(ids()[:, :8], model.start(2))
        logits, _, used = model.step_until(ids()[:, 8], state, after(layers))
        assert used == layers
        torch.testing.assert_close(logits, model.logits(streams[layers - 1])[:, 8], rtol=0, atol=1e-11)


def propagated(model: Any, tokens: Tensor, layers: list[int]) -> Tensor:
    """Logits (T, W) of one row: the stream of each token stays as it is after its exit, and later layers read that."""
    outputs = []
    caches: list[list[Tensor]] = [[] for _ in model.blocks]  # what each layer's first norm gave of each token
    for position, id in enumerate(tokens.tolist()):
        x = model._embed(torch.tensor([[id]]), torch.tensor([[position]]), None)[:, 0]
        for number, block in enumerate(model.blocks):
            caches[number].append(block.norm_1(x))
            if number < layers[position]:
                h = x + block.mixer(torch.stack(caches[number], 1))[:, -1]
                x = h + block.ffn_sublayer(block.norm_2(h)[:, None])[:, 0]
        outputs.append(model.logits(x[:, None])[0, 0])
    return torch.stack(outputs)


@pytest.mark.parametrize("name", ["attention", "recurrent"])
def test_later_tokens_read_what_an_exit_left(name: str) -> None:
    """By hand: in the layers that are left out, mixers read the stream of the exit, and nothing is added to it."""
    model = built("attention") if name == "attention" else built("attention", mixer={"kind": "gru"})
    layers = [4, 1, 2, 4, 3, 1, 4]
    with torch.no_grad():
        expected = propagated(model, ids(7)[0], layers)
        state, actual = model.start(1), []
        for token, count in zip(ids(7)[:1].unbind(1), layers, strict=True):
            logits, state, used = model.step_until(token, state, after(count))
            assert used == count
            actual.append(logits[0])
    torch.testing.assert_close(torch.stack(actual), expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_row_with_exits_is_its_steps(name: str) -> None:
    """Each token after a layer of its own, in one go and token by token: the same streams, whatever the mixer keeps."""
    model = built(name)
    layers = torch.tensor([[4, 1, 2, 4, 3, 1, 4, 2, 4]])
    with torch.no_grad():
        x, _ = model.exits_at(ids()[:1], layers)
        state = model.start(1)
        for position, token in enumerate(ids()[:1].unbind(1)):
            layer = int(layers[0, position])
            logits, state, used = model.step_until(token, state, after(layer))
            assert used == layer
            expected = model.exit_logits(x[:, position : position + 1], layer)[:, 0]
            torch.testing.assert_close(logits, expected, rtol=0, atol=1e-11)
        same, _ = model.exits_at(ids(), torch.full((2, 9), 4))
        torch.testing.assert_close(same, model.features(ids()), rtol=0, atol=1e-12)


def test_a_row_with_exits_and_dropped_tokens() -> None:
    model, keep = built("he", position="none"), torch.tensor([[True, False, True, True, False, True, True, True, True]])
    layers = torch.tensor([[4, 1, 2, 4, 3, 1, 4, 2, 3]])
    with torch.no_grad():
        x, _ = model.exits_at(ids()[:1], layers, keep)
        alone, _ = model.exits_at(ids()[:1][keep][None], layers[keep][None])
    torch.testing.assert_close(x[keep][None], alone, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("position", ["before", "after"])
def test_output_layers_of_their_own(position: str) -> None:
    """By hand, in `exit_logits` and after an exit; the whole model, its price and its weights."""
    model, shared = built("attention", norm_place=position, exit_heads="own"), built("attention", norm_place=position)
    assert len(model.exit_heads) == 3
    streams, _ = model.exits(ids())
    for layer, x in enumerate(streams[:-1], 1):
        head = model.exit_heads[layer - 1]
        z = torch.nn.functional.layer_norm(x, (8,)) if position == "before" else x
        expected = z @ head.head.weight.T + head.head.bias
        torch.testing.assert_close(model.exit_logits(x, layer), expected, rtol=0, atol=1e-12)
        with torch.no_grad():
            _, state = model.extend(ids()[:, :8], model.start(2))
            logits, _, _ = model.step_until(ids()[:, 8], state, after(layer))
        torch.testing.assert_close(logits, expected[:, 8].detach(), rtol=0, atol=1e-11)
    torch.testing.assert_close(model.exit_logits(streams[-1], 4), model(ids()), rtol=0, atol=1e-12)
    torch.testing.assert_close(shared.exit_logits(streams[0], 1), shared.logits(streams[0]), rtol=0, atol=0)
    torch.testing.assert_close(model(ids()), shared(ids()), rtol=0, atol=0)  # the other weights are drawn alike
    assert model.cost(9).params == sum(parameter.numel() for parameter in model.parameters())
    assert {name: value.shape for name, value in model.config.tensors().items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }
    assert "exit_heads" not in shared.config.model_dump(mode="json"), "older runs keep their identity"


@pytest.mark.parametrize(("layer", "words"), [(5, "no exit after layer 5 of a model of 4 layers"), (0, "1 or more")])
def test_exits_beyond_the_depth(layer: int, words: str) -> None:
    model = built("he")
    x, _ = model.exits(ids())
    with pytest.raises(ValueError, match=words):
        model.exit_logits(x[0], layer)
    with pytest.raises(ValueError, match=f"there is no exit after layer {layer} of a model of 4 layers"):
        model.exits_at(ids(), torch.full((2, 9), layer))


def test_the_two_measures_by_hand() -> None:
    model = built("attention")
    before, stream = torch.randn(2, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).unbind(0)
    with torch.no_grad():
        p = model.logits(stream[:, None])[:, 0].softmax(1).sort(1, descending=True).values
        torch.testing.assert_close(
            confidence(model, 1, before, stream, "softmax").double(), p[:, 0] - p[:, 1], rtol=0, atol=1e-6
        )
    cosine = (before * stream).sum(1) / before.norm(dim=1) / stream.norm(dim=1)
    torch.testing.assert_close(confidence(model, 1, before, stream, "state").double(), cosine, rtol=0, atol=1e-6)


def test_the_threshold_falls() -> None:
    exits = Exits(threshold=0.9, decay=4.0, most=100)
    assert exits.at(0) == pytest.approx(0.91)
    assert exits.at(50) == pytest.approx(0.81 + 0.1 * math.exp(-2))
    assert Exits(threshold=1.0, decay=0.0).at(7) == 1.0


@pytest.mark.parametrize(("mode", "hop"), [("stream", 1), ("slide", 4)])
def test_each_text_counts_its_tokens_from_0(mode: Any, hop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that `slide` reads without a step, when it reads its window again."""
    asked: list[int] = []
    monkeypatch.setattr(Exits, "at", lambda self, token, layer=1: asked.append(token) or 0.0)
    model, exits = built("he", position="none"), Exits(threshold=0.9, by="state", most=30)
    for _ in range(2):
        asked.clear()
        ids = list(seqloom.generate(model, [1, 2], exits, max_tokens=30, mode=mode, hop=hop))
        assert len(ids) == 30
        assert asked[0] == 0
        assert asked[-1] >= 27
        assert asked == sorted(set(asked))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["softmax", "state"])
@pytest.mark.parametrize("mode", ["stream", "slide"])
def test_a_text_with_exits(mode: Any, by: Any) -> None:
    """A threshold of 1 writes what all layers write; one of 0 leaves out all but the first."""
    model = built("he", position="none")
    how = {"max_tokens": 9, "mode": mode, "temperature": 0.0}
    plain = list(seqloom.generate(model, [1, 2], **how))

    def write(**settings: Any) -> tuple[list[int], Exiting]:
        text = seqloom.generate(model, [1, 2], Exits(by=by, most=9, **settings), **how)
        assert isinstance(text.counts, Exiting)
        return list(text), text.counts

    ids, sure = write(threshold=1.0, decay=0.0)
    assert ids == plain
    assert (sure.depth, sure.tokens) == (4.0, 8)
    assert write(threshold=0.0, decay=50.0)[1].depth < 2
    ids, between = write(threshold=0.5)
    assert len(ids) == 9
    assert 1 <= between.depth <= 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sublayers": "reversible"}, "sublayers=reversible has two streams"),
        ({"kind": "universal", "halt": True}, "positions of this model halt by themselves"),
    ],
)
def test_models_without_exits(settings: dict[str, Any], words: str) -> None:
    model = built("attention", **settings)
    with pytest.raises(ValueError, match=words):
        seqloom.generate(model, [1, 2], Exits(threshold=0.5), max_tokens=3)  # before the first token
    with pytest.raises(ValueError, match=words):
        model.exits(ids())
    with pytest.raises(ValueError, match=words):
        model.exits_at(ids(), torch.ones(2, 9).long())


def test_own_output_layers_are_of_one_stream() -> None:
    with pytest.raises(ValueError, match="exit_heads=own is of one stream"):
        built("attention", sublayers="reversible", exit_heads="own")


def test_impossible_exits() -> None:
    with pytest.raises(ValueError, match=r"the threshold of exits is from 0 to 1, not 1\.5"):
        read(Exits, {"threshold": 1.5})
    with pytest.raises(ValueError, match="did you mean 'state'"):
        read(Exits, {"threshold": 0.5, "by": "stat"})
