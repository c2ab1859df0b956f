"""The gated linear recurrence of `transformers`' RecurrentGemma is the scan: outputs, state and gradients."""

import pytest
import torch

from seqloom.ops.backends import lacking, use
from seqloom.ops.scan import OP, scan

transformers = pytest.importorskip("transformers")
BACKENDS = [name for name in OP.backends if name not in {*lacking("scans"), "triton"}]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("T", [2, 9, 40])
def test_the_scan_is_the_peers(backend: str, T: int) -> None:
    config = transformers.RecurrentGemmaConfig(hidden_size=6, lru_width=6, num_attention_heads=2, num_hidden_layers=1)
    peer = transformers.models.recurrent_gemma.modeling_recurrent_gemma.RecurrentGemmaRglru(config)
    torch.manual_seed(0)
    a, b, state = torch.rand(2, T, 6), torch.randn(2, T, 6), torch.randn(2, 6)
    result = []
    for ours in (True, False):
        given = [each.clone().requires_grad_() for each in (a, b, state)]
        if ours:
            with use(scans=backend):
                h, after = scan(*given)
        else:
            reset = torch.zeros(2, T, 1, dtype=torch.bool)
            h, after = peer._rnn_scan(given[1], given[0], reset, given[2])
        result.append([h, after, *torch.autograd.grad(h.square().sum() + after.sum(), given)])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
