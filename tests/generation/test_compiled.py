"""A compiled step draws the text of the model's step, in one graph; where it cannot be compiled, one line says so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from seqloom.core.model import Model
from seqloom.generation import compiled
from seqloom.generation.decode import generate, generate_ids
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits
from seqloom.models.decoder import Decoder
from seqloom.models.kinds import model_config

pytestmark = pytest.mark.graph
SIZES: dict[str, Any] = {"vocab": 11, "dim": 8, "depth": 2, "context": 30, "ffn": 16, "dropout": 0.1, "std": 0.4}
MODELS: dict[str, dict[str, Any]] = {
    "learned positions": {"mixer": {"kind": "attention", "heads": 2}},
    "a mixer that hands over": {"mixer": {"kind": "rwkv7", "heads": 2}, "channel": "channel_mix7", "position": "none"},
    "one block": {"mixer": {"kind": "gru"}, "kind": "universal", "halt": True},
    "two streams": {"mixer": {"kind": "he"}, "sublayers": "reversible"},
    "norms after": {"mixer": {"kind": "gla", "heads": 2}, "norm_place": "after"},
    "other layers": {"mixer": [{"kind": "mla", "heads": 2}, {"kind": "mamba2", "head_width": 4}], "position": "none"},
}


class Traced:
    """Compiles to what was captured, and counts the graphs."""

    count = 0

    def __call__(self, graph: fx.GraphModule, inputs: list[Any]) -> Any:
        self.count += 1
        return graph.forward


def built(name: str) -> Model:
    torch.manual_seed(0)
    return model_config({**SIZES, **MODELS[name]}).build().double()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    """Graphs that run as they are, which takes no compiler."""
    backend, compile = Traced(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **options: compile(step, backend=backend, **options))
    return backend


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_one_graph_draws_the_same_text(name: str, traced: Traced) -> None:
    model = built(name)
    texts = [list(generate(model, [1, 2, 3], max_tokens=20, seed=1, compile=on)) for on in (False, True, True)]
    assert texts[0] == texts[1] == texts[2]
    assert traced.count == 1, "the second text takes the graph of the first"
    assert model.training


@pytest.mark.slow
def test_windows_that_slide_in_compiled(traced: Traced, decoder: Callable[..., Decoder]) -> None:
    model = decoder("gla")
    texts = [list(generate(model, [1], max_tokens=15, mode="slide", hop=3, compile=on)) for on in (False, True)]
    assert texts[0] == texts[1]
    assert traced.count == 1


@pytest.mark.slow
def test_a_compiler_gives_the_same_text(decoder: Callable[..., Decoder]) -> None:
    model = decoder("linear")
    assert list(generate(model, [1, 2], max_tokens=9, compile=True)) == list(generate(model, [1, 2], max_tokens=9))


@pytest.mark.slow
def test_without_a_compiler_one_line_says_so(
    decoder: Callable[..., Decoder], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compile = torch.compile

    def broken(graph: fx.GraphModule, inputs: list[Any]) -> Any:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", lambda step, **options: compile(step, backend=broken, **options))
    model = decoder("linear")
    text = list(generate(model, [1, 2], max_tokens=9, compile=True))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "seqloom: the model's step is not compiled: No working C++ compiler found"
    assert text == list(generate(model, [1, 2], max_tokens=9, compile=False))


def test_from_10_000_tokens_on(decoder: Callable[..., Decoder]) -> None:
    model = decoder("linear")
    assert [compiled.choose_compile(model, None, tokens) for tokens in (0, 9_999, 10_000)] == [False, False, True]
    assert [compiled.choose_compile(model, on, 5) for on in (False, True)] == [False, True]
    assert [compiled.room(tokens) for tokens in (1, 128, 129, 4096)] == [128, 128, 256, 4096]


def test_what_cannot_be_compiled(decoder: Callable[..., Decoder]) -> None:
    model = decoder("linear")
    for way, says in (
        (Exits(threshold=0.5), "leave out compile or exits"),
        (Draft(model=decoder("linear")), "leave out compile, or the draft"),
    ):
        with pytest.raises(ValueError, match=says):
            list(generate(model, [1, 2], way, compile=True))
    with pytest.raises(ValueError, match="cannot be compiled for single tokens"):
        list(generate(decoder({"kind": "reformer", "choice": "text"}), [1, 2], compile=True))
    with pytest.raises(TypeError, match="compile is True or False"):
        list(generate(model, [1, 2], compile=1))
    assert len(generate_ids(model, torch.tensor([[1, 2]]), max_tokens=3)[0]) == 3
