"""Dropout is applied to the sum of the embeddings and to the output of each sublayer, and nowhere else."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.models.decoder import Decoder
from seqloom.models.dropout import Dropout
from seqloom.models.verbs import ExtendVerb, ForwardVerb, StepVerb
from tests.models.drawing import DIM, KINDS, decoder, ids


def watched(model: Decoder, ids: Tensor) -> list[tuple[str, Tensor, Tensor]]:
    """(module, input, output) of every dropout of one forward, in order."""
    seen: list[tuple[str, Tensor, Tensor]] = []

    def watch(name: str) -> Callable[..., None]:
        return lambda module, inputs, output: seen.append((name, inputs[0].detach(), output.detach()))

    hooks = [m.register_forward_hook(watch(n)) for n, m in model.named_modules() if isinstance(m, nn.Dropout)]
    model(ids)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_is_applied(kind: str) -> None:
    model = decoder(kind, dropout=0.3).train()
    seen = watched(model, ids(2, 5))
    expected = ["dropout", *("layers.0.dropout",) * 2, *("layers.1.dropout",) * 2]
    assert [name for name, *_ in seen] == expected
    assert Counter(m.p for m in model.modules() if isinstance(m, nn.Dropout)) == {0.3: 3}
    x = (model.token(ids(2, 5)) + model.position(torch.arange(5)[None])) * DIM**0.5  # type: ignore[misc]
    assert seen[0][1].equal(x.detach())
    block = model.blocks[0]
    mixed = block.mixer(block.norm_1(seen[0][2]))
    assert torch.allclose(seen[1][1], mixed.detach(), rtol=1e-12)
    h = seen[0][2] + seen[1][2]
    assert torch.allclose(seen[2][1], block.ffn(block.norm_2(h)).detach(), rtol=1e-12)


def test_how_much_is_dropped() -> None:
    model = decoder("she", dropout=0.3, depth=1).train()
    for _, given, kept in watched(model, ids(400, 6)):
        zero = kept == 0
        n = given.numel()
        assert abs(float(zero.double().mean()) - 0.3) < 5 * (0.3 * 0.7 / n) ** 0.5
        assert torch.allclose(kept[~zero], given[~zero] / 0.7, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_is_random(kind: str) -> None:
    model = decoder(kind, dropout=0.5).train()
    assert not model(ids(2, 5)).equal(model(ids(2, 5)))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    result = model(ids(2, 5))
    assert result.equal(model.eval()(ids(2, 5)))


def test_the_residual_goes_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("attention").train()
    x = torch.randn(2, 5, DIM, dtype=torch.float64)
    nothing: Any = lambda self, given: torch.zeros_like(given)  # noqa: E731
    monkeypatch.setattr(Dropout, "forward", nothing)
    block = model.blocks[0]
    assert block(x, ForwardVerb().call(0)).equal(x)
    extending = ExtendVerb(None, None, [block.start(2)])
    assert block(x, extending.call(0)).equal(x)
    assert block(x[:, 0], StepVerb(None, extending.states, False).call(0)).equal(x[:, 0])
    logits = model(ids(2, 5))
    assert torch.allclose(logits, model.head(model.norm(torch.zeros(DIM, dtype=torch.float64))).expand_as(logits))


@pytest.mark.parametrize("n", [1, 3, 4, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_number_of_elements_and_dtype(n: int, dtype: torch.dtype) -> None:
    x = torch.ones(n, dtype=dtype, requires_grad=True)
    y = Dropout(0.5)(x)
    assert y.dtype == dtype
    assert set(y.tolist()) <= {0.0, 2.0}
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())  # type: ignore[arg-type]  # there is one


def test_each_element_is_drawn_independently() -> None:
    """No two of the four in one word go together, and each is dropped as often."""
    kept = (Dropout(0.25)(torch.ones(200_000, 4)) > 0).double()
    assert float((kept.mean(0) - 0.75).abs().max()) < 5 * (0.25 * 0.75 / 200_000) ** 0.5
    together = torch.corrcoef(kept.T) - torch.eye(4, dtype=torch.float64)
    assert float(together.abs().max()) < 5 / 200_000**0.5


def test_the_generator_decides() -> None:
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(Dropout(0.3)(torch.ones(100)))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.slow
@pytest.mark.graph
def test_in_a_graph_it_is_torchs() -> None:
    compiled = torch.compile(Dropout(0.3), fullgraph=True, backend="aot_eager")
    assert 0.6 < float((compiled(torch.ones(1000)) > 0).double().mean()) < 0.8
