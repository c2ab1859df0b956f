"""A traced forward has as many nodes for 256 tokens as for 128: no loop over tokens is unrolled into the graph."""

from typing import Any

import pytest
import torch
from torch import fx

from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds
from seqloom.ops.native import library
from seqloom.ops.recurrence import native

CONTEXT = 512
STREAMING = [kind for kind, config in kinds().items() if config.traits.streams and config.traits.causal != "never"]
BY_DOUBLING = {"aft_full", "aft_local", "aft_conv", "ssm", "lssl", "s4"}
"""log₂ T passes, or powers of a matrix, of which 256 tokens need one more than 128"""
A_PASS = 32
"""the most nodes of one more pass"""
BY_BLOCKS = {"fox"}
"""64 queries at a time, each with a sum of its own, so that no T² numbers are stored and none is rounded"""
IN_C = {"rnn", "lstm", "gru"}
"""loops without a portable form that can be traced: where there is no C, the graph has every token"""


def nodes(config: MixerConfig, T: int) -> int:
    """The nodes of the graph of a forward of T tokens."""
    counts = []

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Any:
        counts.append(len(graph.graph.nodes))
        return graph.forward

    torch._dynamo.reset()
    mixer = config.build(8, CONTEXT).eval()
    compiled = torch.compile(mixer, fullgraph=True, dynamic=False, backend=backend)
    with torch.no_grad():
        compiled(torch.randn(1, T, 8))
    (count,) = counts
    return count


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMING)
def test_the_graph_of_a_forward_does_not_grow_with_the_text(kind: str) -> None:
    if kind in IN_C and library(native.KERNEL.source) is None:
        pytest.skip("there is no compiler of C")
    config = kinds()[kind]
    settings = config.model_validate({"kind": kind, **config.examples[0]})
    short, long = nodes(settings, 128), nodes(settings, 256)
    if kind in BY_BLOCKS:
        assert long < 2 * short
    elif kind in BY_DOUBLING:
        assert short < long <= short + A_PASS
    else:
        assert long == short
