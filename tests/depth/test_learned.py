"""CALM's learned confidence: its equation and loss by hand, training with a frozen model, and where it is stored."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.core.progress import show_nothing
from seqloom.data.tokens import Tokens
from seqloom.depth.classifier import LayerPredictions, layer_predictions
from seqloom.depth.learned import Learned, LearnedConfig
from seqloom.depth.store import NAME, WEIGHTS, open_exits, save_exits
from seqloom.generation.exits import Exiting, Exits, confidence
from seqloom.runs.state import model_hash
from seqloom.training.exit_fitting import fit_exits

VOCAB = 11


def model(depth: int = 3, **settings: Any) -> Model:
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": depth, "context": 12, "ffn": 16, "dropout": 0.0, "std": 0.4}
    return seqloom.decoder("he", **{**sizes, **settings}).eval()


def text(count: int = 400) -> Tokens:
    ids = np.random.default_rng(0).integers(0, VOCAB, count).astype("<u2")
    return Tokens(ids, np.zeros(1, np.int64), np.array([count], np.int64))


def worked() -> Learned:
    """Of three layers and two channels, with weights to compute by hand."""
    learned = Learned(LearnedConfig(depth=3, dim=2)).double()
    with torch.no_grad():
        learned.weight.copy_(torch.tensor([[1.0, -1.0], [0.5, 2.0]]))
        learned.bias.copy_(torch.tensor([0.25, -1.0]))
    return learned


STREAMS = [
    torch.tensor([[[2.0, 1.0], [0.0, 1.0]]], dtype=torch.float64),
    torch.tensor([[[2.0, 1.0], [4.0, 0.5]]], dtype=torch.float64),
    torch.tensor([[[9.0, 9.0], [9.0, 9.0]]], dtype=torch.float64),
]
LOGITS = [[1.25, 2.0], [-0.75, 2.0]]
"""of each token after the first and the second layer"""


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def test_confidence_and_loss_by_hand() -> None:
    learned = worked()
    for layer in (1, 2):
        expected = torch.tensor([[sigmoid(LOGITS[0][layer - 1]), sigmoid(LOGITS[1][layer - 1])]], dtype=torch.float64)
        torch.testing.assert_close(learned.confidence(layer, STREAMS[layer - 1]), expected, rtol=0, atol=1e-15)
    same = torch.tensor([[[True, True, True], [False, True, True]]])
    terms = [-math.log(sigmoid(1.25)), -math.log(sigmoid(2)), -math.log(1 - sigmoid(-0.75)), -math.log(sigmoid(2))]
    loss = learned.loss(LayerPredictions(STREAMS, same, same, torch.zeros(1, 2, 3)))
    torch.testing.assert_close(loss, torch.tensor(sum(terms) / 4, dtype=torch.float64), rtol=0, atol=1e-15)
    loss.backward()
    gradient = torch.zeros(2, 2, dtype=torch.float64)  # dBCE/dz = c - target, over four terms
    for token, row in enumerate(LOGITS):
        for layer, z in enumerate(row):
            gradient[layer] += (sigmoid(z) - float(same[0, token, layer])) * STREAMS[layer][0, token] / 4
    torch.testing.assert_close(learned.weight.grad, gradient, rtol=0, atol=1e-15)


def test_the_first_layer_that_is_sure() -> None:
    """c is 0.777 and 0.881 of the first token, 0.321 and 0.881 of the second."""
    learned = worked()
    for threshold, expected in ((0.0, [1, 1]), (0.7, [1, 2]), (0.8, [2, 2]), (0.9, [3, 3])):
        assert learned.depths(STREAMS, threshold)[0].tolist() == expected


def test_what_a_model_predicts_after_each_layer() -> None:
    deep = model()
    ids = torch.from_numpy(text(26).ids.astype(np.int64)).view(2, 13)
    read = layer_predictions(deep, ids)
    streams, _ = deep.exits(ids[:, :-1])
    last = deep.logits(streams[-1]).argmax(-1)
    for layer, x in enumerate(streams):
        torch.testing.assert_close(read.streams[layer], x)
        assert torch.equal(read.same[..., layer], deep.logits(x).argmax(-1) == last)
    assert 0 < float(read.same[..., 0].float().mean()) < 1
    assert bool(read.same[..., -1].all())


@pytest.mark.slow
def test_it_is_trained_apart_from_its_model() -> None:
    """Its loss falls below that of the best constants, and no weight of the model changes."""
    deep = model(std=0.7).train()
    before = model_hash(deep)
    fitted = fit_exits(deep, text(4000), batches=200, batch=8, rate=0.03, show=show_nothing)
    assert model_hash(deep) == before
    assert deep.training
    assert all(parameter.grad is None for parameter in deep.parameters())
    assert fitted.before == pytest.approx(math.log(2), abs=1e-6)
    rates = layer_predictions(deep.eval(), torch.from_numpy(text(4000).ids[3600:].astype(np.int64))[None, :13]).same
    shares = np.array([float(rates[..., layer].float().mean()) for layer in range(2)]).clip(0.05, 0.95)
    constant = float(-(shares * np.log(shares) + (1 - shares) * np.log(1 - shares)).mean())
    assert fitted.after < constant
    assert (fitted.judged[0].by, fitted.judged[0].layers, fitted.judged[0].same) == ("all layers", 3.0, 1.0)
    layers, same = [row.layers for row in fitted.judged[1:]], [row.same for row in fitted.judged[1:]]
    assert layers == sorted(layers)
    assert same[-1] > same[0] or same[0] == 1
    again = fit_exits(deep, text(4000), batches=200, batch=8, rate=0.03, show=show_nothing)
    assert torch.equal(fitted.classifier.state_dict()["weight"], again.classifier.state_dict()["weight"])


def test_a_text_by_a_learned_measure() -> None:
    deep = model()
    sure = Learned(LearnedConfig(depth=3, dim=8))
    x = torch.randn(2, 8)
    torch.testing.assert_close(confidence(deep, 2, x, x, sure), sure.confidence(2, x))
    with torch.no_grad():
        sure.bias.copy_(torch.tensor([-20.0, 20.0]))
    exits = Exits(threshold=0.5, by=sure, decay=0.0, most=9)
    text = seqloom.generate(deep, [1, 2], exits, max_tokens=9)
    assert len(list(text)) == 9
    assert isinstance(text.counts, Exiting)
    assert text.counts.depth == 2.0, "never after the first layer, always after the second"


def test_it_is_saved_and_opened(tmp_path: Path) -> None:
    deep, learned = model(), Learned(LearnedConfig(depth=3, dim=8))
    torch.nn.init.normal_(learned.weight)
    save_exits(learned, deep, "text", tmp_path / "new" / "exits")
    again = open_exits(tmp_path / "new" / "exits", deep)
    assert again.config == learned.config
    assert all(torch.equal(again.state_dict()[name], value) for name, value in learned.state_dict().items())
    with pytest.raises(ValueError, match="holds something already: choose another --out"):
        save_exits(learned, deep, "text", tmp_path / "new" / "exits")
    with pytest.raises(ValueError, match="is of another model, or of other weights"):
        open_exits(tmp_path / "new" / "exits", model(std=0.3))


def _bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _other(path: Path) -> None:
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "source": "other"}))


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        (WEIGHTS, _bit, "is altered: its sha256 is not that in exits.json"),
        (WEIGHTS, lambda path: path.write_bytes(path.read_bytes()[:100]), "is altered"),
        (WEIGHTS, lambda path: path.write_bytes(path.read_bytes() + bytes(100_000)), "is too large"),
        (NAME, _other, "is altered: its sha256 is not that of its contents"),
        (NAME, lambda path: path.write_text("{"), "is not readable JSON"),
        (NAME, lambda path: path.write_text("[]"), "holds no settings"),
        (NAME, lambda path: path.unlink(), "has no exits.json: give the --out of"),
    ],
)
def test_damage_is_seen(name: str, how: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    deep = model()
    save_exits(Learned(LearnedConfig(depth=3, dim=8)), deep, "text", tmp_path / "exits")
    how(tmp_path / "exits" / name)
    with pytest.raises((ValueError, FileNotFoundError), match=words) as caught:
        open_exits(tmp_path / "exits", deep)
    assert "\n" not in str(caught.value)


def broken() -> Model:
    deep = model()
    torch.nn.init.constant_(next(deep.parameters()), math.nan)
    return deep


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": lambda: model(depth=1)}, "a model of one layer has none that could be left out"),
        ({"model": lambda: model(sublayers="reversible")}, "set serial"),
        ({"tokens": text(30)}, "tokens are less than one window"),
        ({"batches": 0}, "batches must be 1 or more"),
        ({"batch": 0}, "batch must be 1 or more"),
        ({"rate": 0.0}, "the rate of training is above 0 and at most 1"),
        ({"rate": math.nan}, "the rate of training is above 0 and at most 1"),
        ({"rate": 1e38}, "the rate of training is above 0 and at most 1"),
        (
            {"model": broken},
            "the loss of the classifier is nan: choose a smaller rate, or a sound run",
        ),
        ({"seed": -1}, "a seed must be a whole number"),
    ],
)
def test_what_cannot_be_trained(changes: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "tokens": text(),
        "batches": 2,
        "batch": 2,
        "show": show_nothing,
        **changes,
    }
    with pytest.raises(ValueError, match=words) as caught:
        fit_exits(asked.pop("model")(), asked.pop("tokens"), **asked)
    assert "\n" not in str(caught.value)


def test_a_classifier_of_other_sizes() -> None:
    with pytest.raises(ValueError, match="of a model of 4 layers and 8 channels, this one has 3 and 8"):
        seqloom.generate(model(), [1], Exits(threshold=0.5, by=Learned(LearnedConfig(depth=4, dim=8))))


def test_half_precision_is_read() -> None:
    learned = Learned(LearnedConfig(depth=2, dim=4))
    x: Tensor = torch.ones(1, 4, dtype=torch.bfloat16)
    assert learned.confidence(1, x).dtype == torch.float32
