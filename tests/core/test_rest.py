"""`Rest`: evaluation mode of one thread, beside a thread that trains the same model."""

import ast
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import seqloom
from seqloom.core.progress import show_nothing
from seqloom.core.rest import Rest, in_training
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.layers.linear import Linear
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.dropout import Dropout
from tests.kinds import CAUSAL

SECONDS = 60
IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])
SOURCE = Path(seqloom.__file__).parent


def decoder(mixer: Any = "gru", **settings: Any) -> Decoder:
    """A model in training mode that drops half of everything."""
    torch.manual_seed(7)
    values = {"vocab": 11, "dim": 8, "depth": 2, "context": 8, "ffn": 16, "dropout": 0.5, "position": "none"}
    return Decoder(DecoderConfig(**{**values, "std": 0.5, "mixer": {"kind": mixer}, **settings})).train()


def gradients(model: Decoder) -> list[Tensor]:
    """Of a loss with dropout; the same at each call, if nothing else draws from torch's generator."""
    torch.manual_seed(3)
    loss = model(IDS).square().mean()
    return list(torch.autograd.grad(loss, [*model.parameters()]))


def texts(model: Decoder) -> list[int]:
    return list(seqloom.generate(model, [1, 2], max_tokens=8, seed=1))


def scored(model: Decoder) -> Any:
    ids, starts, sizes = np.arange(10, -1, -1, dtype=np.uint16), np.array([0]), np.array([11])
    return score(model, Tokens(ids, starts, sizes), batch=1, show=show_nothing)


def interrupted(monkeypatch: pytest.MonkeyPatch, mixer: nn.Module, verb: str, inner: Callable[[], Any]) -> list[Any]:
    """When this thread calls the verb of the mixer, another thread runs `inner` first; returns its results."""
    results: list[Any] = []
    verb_itself, here = getattr(mixer, verb), threading.get_ident()

    def with_other(*arguments: Any, **options: Any) -> Any:
        if threading.get_ident() == here and not results:
            with torch.random.fork_rng(devices=[]):  # torch has one generator for all threads
                other = threading.Thread(target=lambda: results.append(inner()))
                other.start()
                other.join(SECONDS)
        return verb_itself(*arguments, **options)

    monkeypatch.setattr(mixer, verb, with_other)
    return results


@pytest.mark.parametrize("read", [texts, scored], ids=["generate", "score"])
def test_another_thread_reads_in_the_midst_of_a_training_step(
    read: Callable[[Decoder], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = decoder()
    alone, read_alone = gradients(model), read(model)
    results = interrupted(monkeypatch, model.mixers[0], "forward_with_extras", lambda: read(model))
    beside = gradients(model)
    assert results == [read_alone]
    assert all(one.equal(other) for one, other in zip(alone, beside, strict=True))
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    ("read", "verb"), [(texts, "read_token"), (scored, "forward_with_extras")], ids=["step", "score"]
)
def test_another_thread_trains_in_the_midst_of_a_reading(
    read: Callable[[Decoder], Any], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = decoder()
    alone, read_alone = gradients(model), read(model)
    results = interrupted(monkeypatch, model.mixers[1], verb, lambda: gradients(model))
    assert read(model) == read_alone
    assert all(one.equal(other) for one, other in zip(alone, results[0], strict=True))


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_model_at_rest_is_a_model_in_evaluation_mode(kind: str) -> None:
    model = decoder(kind)
    with Rest(model):
        logits, extras = model.forward_with_extras(IDS)
        assert not logits.requires_grad
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        expected, expected_extras = model.eval().forward_with_extras(IDS)
    assert logits.equal(expected)
    assert extras.losses.keys() == expected_extras.losses.keys()
    assert extras.statistics.keys() == expected_extras.statistics.keys()


def test_the_state_before_comes_back() -> None:
    layer = Dropout(0.5)
    rest = Rest(layer)

    def fail() -> None:
        with rest:
            with rest:
                assert not in_training(layer)
                assert not torch.is_grad_enabled()
            assert not in_training(layer)
            assert not torch.is_grad_enabled()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert in_training(layer)
    assert torch.is_grad_enabled()
    assert not in_training(layer.eval())


@pytest.mark.graph
def test_a_compiled_layer_asks_too() -> None:
    layer, x = Dropout(0.5), torch.ones(1000)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")

    def dropped() -> bool:
        return bool((compiled(x) == 0).any())

    others: list[bool] = []
    assert dropped()
    with Rest(layer):
        assert not dropped()
        other = threading.Thread(target=lambda: others.append(dropped()))
        other.start()
        other.join(SECONDS)
        assert not dropped()
    assert dropped()
    assert others == [True], "another thread trains on"


class Foreign(nn.Module):
    """A layer as others write it: it reads `training` itself, and torch's dropout does."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.projection = Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x) + (1 if self.training else 0)


def test_layers_of_others_are_in_evaluation_mode_until_the_last_has_read() -> None:
    layer, x = Foreign(), torch.ones(100)
    layer.projection.eval()
    first, second = Rest(layer), Rest(layer)
    first.__enter__()
    with second:
        assert layer(x).equal(x)
        assert layer.projection.training is False
    assert layer(x).equal(x), "the first still reads"
    first.__exit__(None, None, None)
    assert layer.training
    assert layer.dropout.training
    assert not layer.projection.training, "it was in evaluation mode before"


def test_every_layer_asks() -> None:
    """Nothing that a model computes reads `training` itself, and what reads a model does not change its mode."""
    folders = ("core", "mixers", "models", "ops", "positions", "depth", "generation", "retrieval", "evaluation")
    allowed = {
        "core/rest.py": {"training"},
        "core/model.py": {"training", "train"},  # a model that is built again has the mode of the first
        "mixers/layer_price.py": {"eval"},  # a layer that was just built
        "mixers/layer_probe.py": {"train", "eval"},  # likewise
        "models/transformer.py": {"training", "train"},  # as has a mixer that is built again
        "models/foreign/load.py": {"eval"},  # a model that was just read
        "models/swap.py": {"training", "train"},  # a model that was just built has the mode of the first
        "models/int8.py": {"eval"},  # a copy for inference
        "models/patch_classifier.py": {"train"},  # the part of the pictures
        "models/switched.py": {"train"},  # mixers beside those of a model, which never learn
        "training/objectives/labels.py": {"train"},  # a text's part
        "training/objectives/text.py": {"train"},  # a text's part
        "training/objectives/patches.py": {"train"},  # the part of the pictures
        "depth/store.py": {"eval"},  # a classifier that was just built
        "retrieval/lookup.py": {"eval"},  # the frozen model of SPALM
        "retrieval/search.py": {"train"},  # an index of faiss
    }
    paths = [path for folder in folders for path in (SOURCE / folder).rglob("*.py")]
    paths += (SOURCE / "training" / "objectives").glob("*.py")
    found: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or node.attr not in ("training", "train", "eval"):
                continue
            name = path.relative_to(SOURCE).as_posix()
            settings = isinstance(node.value, ast.Name) and node.value.id in ("config", "run")
            settings = settings or name.endswith("exits.py")
            if not settings:
                found.setdefault(name, set()).add(node.attr)
    assert found == allowed
