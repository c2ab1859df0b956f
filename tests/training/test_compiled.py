"""`training.compile`: layers compiled around their mixers, once for all layers of a kind, with the same losses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.exc import TritonMissing

from seqloom.core.graphs import without_reading
from seqloom.training.compilable import COMPILED, why_uncompiled
from seqloom.training.compiled import CompiledParts
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.preparation import learner_of, with_text
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from tests.training.recorded import on_a_cpu
from tests.training.running import newest, tiny
from tests.training.stepping import CONTEXT, decoder, noise
from tests.training.test_whole_recipes import NAMES, changes

real = torch.compile


@contextmanager
def compiling(backend: Any) -> Iterator[None]:
    """Inside the block torch compiles by a backend, from the start, and does not fall back to uncompiled code."""
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda part, **options: real(part, backend=backend, **options))
        yield
    torch._dynamo.reset()


@contextmanager
def counted() -> Iterator[list[Any]]:
    """Yields the graphs that are compiled inside the block, without a compiler of machine code."""
    from torch._dynamo.backends.debugging import aot_eager

    graphs: list[Any] = []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return aot_eager(graph, inputs)

    with compiling(count):
        yield graphs


def without_dropout(learner: Learner) -> Learner:
    for module in learner.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return learner.double().train()


def loss_and_gradients(learner: Learner, run: Callable[[Callable[[], Any]], Any]) -> list[Tensor]:
    batch = learner.objective.batch(0, 0, learner.model)
    learner.zero_grad()
    with without_reading():
        result = run(lambda: learner(batch, {}))
    losses = [*result.losses.values(), *result.extras.losses.values()]
    torch.stack(losses).sum().backward()
    return [*losses, *(parameter.grad for parameter in learner.parameters() if parameter.grad is not None)]


def compare(learner: Learner, rtol: float, atol: float) -> None:
    """Fails unless compiled layers have the losses and gradients of layers as they are."""
    expected = loss_and_gradients(learner, lambda work: work())
    parts = CompiledParts(learner.model)
    for one, other in zip(loss_and_gradients(learner, parts.run), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)
    assert parts._compiles, "it fell back"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_two_graphs_for_each_kind_of_layer_and_one_for_the_output(name: str) -> None:
    """However many layers there are; or it says why nothing is compiled."""
    config, corpus = with_text(resolve(name, changes(name, 6)))
    learner = without_dropout(learner_of(config, corpus))
    if why_uncompiled(learner.model, learner.objective, config.training):
        return
    kinds = {(type(block), type(block.mixer), type(block.ffn_sublayer)) for block in learner.model.blocks}
    with counted() as graphs:
        compare(learner, rtol=1e-9, atol=1e-9)
    assert 2 <= len(graphs) <= 2 * len(kinds) + 1


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"norm_place": "after"}, {"residual": "output"}, {"channel": "none"}], ids=str)
@pytest.mark.parametrize("kind", ["he", "attention", "gated_delta"])
def test_layers_of_one_kind_are_compiled_once(kind: str, changes: dict[str, Any]) -> None:
    model = decoder(kind, depth=5, **changes)
    learner = without_dropout(Learner(model, NextToken(noise(), CONTEXT, 4)))
    with counted() as graphs:
        compare(learner, rtol=1e-9, atol=1e-9)
    assert 2 <= len(graphs) <= 3
    has_products = any("linear" in str(node.target) for graph in graphs for node in graph.graph.nodes)
    assert has_products == (model.blocks[0].ffn_sublayer is not None)


@pytest.mark.slow
def test_the_mixer_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("attention", depth=2)
    traced: list[bool] = []
    for block in model.blocks:
        forward = block.mixer.forward_with_extras
        monkeypatch.setattr(
            block.mixer,
            "forward_with_extras",
            lambda *given, forward=forward: traced.append(torch.compiler.is_compiling()) or forward(*given),
        )
    with counted():
        compare(without_dropout(Learner(model, NextToken(noise(), CONTEXT, 4))), rtol=1e-9, atol=1e-9)
    assert traced == [False] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["he", "gated_delta"])
def test_compiled_code_has_the_losses_of_eager_code(kind: str) -> None:
    """In float64 by torch's compiler itself, to 1e-8 of the largest gradient."""
    learner = without_dropout(Learner(decoder(kind, depth=3), NextToken(noise(), CONTEXT, 4)))
    with compiling("inductor"):
        compare(learner, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_what_cannot_be_compiled_runs_as_it_is_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: Any) -> Any:
        raise TritonMissing("Cannot find a working triton installation.\nmore")

    monkeypatch.setattr(torch, "compile", lambda part, **options: fails)
    learner = without_dropout(Learner(decoder("he", depth=2), NextToken(noise(), CONTEXT, 4)))
    expected = loss_and_gradients(learner, lambda work: work())
    parts = CompiledParts(learner.model)
    for _ in range(2):
        for one, other in zip(loss_and_gradients(learner, parts.run), expected, strict=True):
            assert one.equal(other)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("training goes on uncompiled, since compiling failed: ")
    assert "riton" in line


def test_an_error_of_the_model_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nothing on the model."""

    def fails(*given: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("no room")

    monkeypatch.setattr(torch, "compile", lambda part, **options: fails)
    model = decoder("he", depth=1)
    parts = CompiledParts(model)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="no room"):
        parts.run(lambda: model(torch.ones(1, 4, dtype=torch.long)))
    assert model.blocks[0]._compiled_call_impl is None
    assert not {"output", "head_input"} & vars(model).keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (["model.sublayers=reversible"], "reversible layers are computed again in the backward"),
        (["training.recompute=layer"], "training.recompute=layer computes layers again in the backward"),
        (["training.stages=[{batches: 4, context: 8}, {batches: 5}]"], "stages of the training have rows of different"),
        (["training.stages=[{batches: 4, lr: 0.1}, {batches: 5}]"], ""),
        ([], ""),
    ],
    ids=str,
)
def test_what_is_compiled_is_said_in_one_line(
    out: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], why: str
) -> None:
    monkeypatch.setattr(torch, "compile", lambda part, **options: part)
    lines: list[str] = []
    tiny(out, "training.compile=true", *changes, say=lines.append)
    about = [line for line in lines if "compiled" in line and "parameters" not in line]
    assert len(about) == 1
    assert about[0].startswith(f"nothing is compiled: {why}" if why else COMPILED)
    assert newest(out).meta["surroundings"].get("compiled") == (None if why else "layers")


@pytest.mark.slow
def test_halting_positions_are_not_compiled() -> None:
    config, corpus = with_text(resolve("universal/small", [*changes("universal/small", 2), "model.halt=true"]))
    learner = learner_of(config, corpus)
    assert "halt" in why_uncompiled(learner.model, learner.objective, config.training)


@pytest.mark.slow
def test_a_compiled_run_is_captured(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    monkeypatch.setattr(torch, "compile", lambda part, **options: part)
    lines: list[str] = []
    tiny(out, "training.compile=true", say=lines.append)
    assert [line for line in lines if line == COMPILED or "CUDA graph" in line] == [
        COMPILED,
        "each training step is replayed from a CUDA graph",
    ]
    assert newest(out).meta["surroundings"]["graph"] == "capture"


@pytest.mark.slow
def test_a_run_whose_model_was_compiled_as_a_whole_goes_on_with_a_word(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before layers were compiled around their mixers: its settings are read, and the change is said."""
    monkeypatch.setattr(torch, "compile", lambda part, **options: part)
    with monkeypatch.context() as patch:
        patch.setattr("seqloom.training.drift.why_uncompiled", lambda *given: "before")
        tiny(out, "training.compile=true", "training.batches=3")
    with pytest.raises(ValueError, match="compiled was None, is layers; go on with --allow-drift"):
        tiny(out, "training.compile=true")
    tiny(out, "training.compile=true", allow_drift=True)
