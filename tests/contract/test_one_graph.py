"""A compiled step is traced once: the state keeps its shapes from `start(batch, capacity=...)` on."""

from typing import Any

import pytest
import torch
from torch import fx

from seqloom.core.mixer import Mixer
from seqloom.core.state import State, fill_state, flat, select
from tests.contract.cases import DIM, Make, close, draw, every_kind, fits, streams

pytestmark = pytest.mark.graph
CONTEXT = 64
CAPACITY = 48
"""below the context, so that no cache is as large as it may be"""
TOKENS = 40


class Traced:
    """A backend of torch.compile that runs what was captured, and counts the graphs."""

    count = 0

    def __call__(self, graph: fx.GraphModule, inputs: list[Any]) -> Any:
        self.count += 1
        return graph.forward


def reloaded(mixer: Mixer, state: State) -> State:
    """The state as it comes back from a disk: without unused room, which `reserve` gives it again."""
    trimmed = mixer.trim(state)
    loaded: State = fill_state(trimmed, {name: tensor.clone() for name, tensor in flat(trimmed).items()})
    return mixer.reserve(loaded, CAPACITY - int(state["length"].max()))


def check_one_graph(make: Make, reuse: bool) -> None:
    """40 tokens in one graph, in the middle with rows in another order, then saved and loaded."""
    if not streams(make):
        return
    torch._dynamo.reset()
    mixer = make(context=CONTEXT)
    tokens = fits(mixer, TOKENS)
    x, traced = draw(2, tokens, DIM), Traced()
    compiled = torch.compile(mixer.step, fullgraph=True, backend=traced)
    swap = torch.tensor([1, 0])
    with torch.no_grad():
        state, expected = mixer.start(2, capacity=CAPACITY), mixer.start(2)
        shapes = {name: tensor.shape for name, tensor in state.items()}
        for position in range(tokens):
            if position == tokens // 3:
                state, expected = select(state, swap), select(expected, swap)
            if position == tokens // 2:
                state = reloaded(mixer, state)
            y, state = compiled(x[:, position], state, reuse=reuse)
            wanted, expected = mixer.step(x[:, position], expected, reuse=reuse)
            close(y, wanted)
            assert {name: tensor.shape for name, tensor in state.items()} == shapes
    assert traced.count == 1, f"{traced.count} graphs for {tokens} tokens"


@every_kind
@pytest.mark.parametrize(
    "reuse", [pytest.param(False, id="kept", marks=pytest.mark.slow), pytest.param(True, id="reused")]
)
def test_one_graph(make: Make, reuse: bool) -> None:
    check_one_graph(make, reuse)
