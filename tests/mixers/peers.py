"""Mixers next to the layers of `transformers` with weights copied: outputs, gradients, and cached tokens.

The peers round to float32 inside, so the bound is 2e-6 of the largest number, and 1e-5 of it for gradients.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer

DIM = 16
MLP = {
    "vocab_size": 11,
    "hidden_size": DIM,
    "intermediate_size": DIM,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


class OfAngles(nn.Module):
    """A layer that wants the sines of its positions and a mask; what it has read is in its cache."""

    def __init__(self, attention: nn.Module, rotary: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.rotary = rotary
        self.settings = attention.settings

    def forward(self, x: Tensor, cache_params: Any = None) -> Tensor:
        first, T = 0 if cache_params is None else cache_params.get_seq_length(self.attention.layer_idx), x.shape[1]
        positions = torch.arange(first, first + T).expand(len(x), -1)
        seen = torch.arange(first + T) <= positions[0, :, None]
        mask = torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)[None, None]
        return self.attention(x, self.rotary(x, positions), mask, past_key_values=cache_params)[0]


Make = Callable[[], tuple[nn.Module, Mixer, dict[str, Tensor]]]


def taps(theirs: Tensor) -> Tensor:
    """The peer's taps are (E, 1, W), the oldest first."""
    return theirs[:, 0].flip(1).T


def strengthened(peer: nn.Module, config: Any) -> nn.Module:
    """With weights large enough to be seen, and with the settings that a cache is made of."""
    torch.manual_seed(3)
    peer.settings = config
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            if "log" in name or "dt_bias" in name:
                parameter.uniform_(-1, 1)
            else:
                parameter.copy_(0.4 * torch.randn_like(parameter))
    return peer.eval()


def with_the_same_weights(make: Make) -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    """The peer, the mixer with its weights, and these as functions of the peer's parameters."""
    peer, mixer, weights = make()
    assert set(weights) == {name for name, _ in mixer.named_parameters()}
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(weights[name])
    return peer, mixer, weights


def near(actual: Tensor, expected: Tensor, of_largest: float, least: float = 0.0) -> None:
    """Within a share of the largest number, or of `least` where that is larger."""
    largest = max(float(expected.detach().abs().max()), least)
    torch.testing.assert_close(actual, expected, rtol=0, atol=of_largest * largest)


def check_peer(make: Make, T: int, bound: float = 2e-6) -> None:
    """Outputs and gradients; `bound` is of the largest output."""
    peer, mixer, weights = with_the_same_weights(make)
    x, out = torch.randn(2, T, DIM), torch.randn(2, T, DIM)
    given, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = mixer(given), peer(theirs)
    near(y, expected, bound)
    actual = torch.autograd.grad((y * out).sum(), [given, *mixer.parameters()])
    parts = list(peer.parameters())
    input_gradient, *gradients = torch.autograd.grad((expected * out).sum(), [theirs, *parts])
    near(actual[0], input_gradient, 1e-5)
    ours = [weights[name] for name, _ in mixer.named_parameters()]
    # float32 leaves 2e-7 to 4e-7 in every gradient of the peer, and as much in ours, against float64 (T 1, the largest
    # gradient 4): more than 2e-5 of those below 0.01, and all there is of those that are 0 (a softmax over one key).
    least = 0.01 * max(float(gradient.abs().max()) for gradient in (input_gradient, *gradients))
    for reached, gradient in zip(torch.autograd.grad(ours, parts, actual[1:]), gradients, strict=True):
        near(reached, gradient, 2e-5, least)  # the mixer's gradients, handed on to what its weights were copied from


@torch.no_grad()
def check_cached_tokens(make: Make) -> None:
    """A piece and then single tokens, next to the peer with its cache."""
    transformers = pytest.importorskip("transformers")
    peer, mixer, _ = with_the_same_weights(make)
    x, state = torch.randn(2, 9, DIM), mixer.start(2)
    cache = transformers.DynamicCache(config=peer.settings)
    for first, last in ((0, 4), *((t, t + 1) for t in range(4, 9))):
        expected = peer(x[:, first:last], cache_params=cache)
        y, state = mixer.extend(x[:, first:last], state)
        near(y, expected, 2e-6)
