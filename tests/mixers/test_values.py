"""Golden values: every mixer of the paper against its equations in plain numpy, outputs and gradients.

Gradients are compared with central differences of the loops in `paper.py`.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.paper import (
    Array,
    D,
    Weights,
    eq_10_to_17,
    family_in_groups,
    he,
    he_extraction,
    me,
    she,
    she_in_groups,
    we,
)

L = 5

EQUATIONS: dict[str, tuple[dict, Callable[[Array, Weights], Array]]] = {
    "attention, 1 head": ({"kind": "attention", "heads": 1}, lambda x, w: eq_10_to_17(x, w, 1)),
    "attention, 2 heads": ({"kind": "attention", "heads": 2}, lambda x, w: eq_10_to_17(x, w, 2)),
    "attention, 8 heads": ({"kind": "attention", "heads": 8}, lambda x, w: eq_10_to_17(x, w, 8)),
    "she": ({"kind": "she"}, she),
    "she without w_out": ({"kind": "she", "out_proj": False}, she),
    "she in 2 groups": ({"kind": "she", "groups": 2}, she_in_groups),
    "he": ({"kind": "he"}, he),
    "he without w_out": ({"kind": "he", "out_proj": False}, he),
    "we": ({"kind": "we"}, we),
    "we without w_out": ({"kind": "we", "out_proj": False}, we),
    "me": ({"kind": "me"}, me),
    "he_extraction": ({"kind": "he_extraction"}, he_extraction),
    "family, 4 groups": ({"kind": "extractor", "groups": 4, "in_proj": True}, family_in_groups),
    "family, one shared tap": ({"kind": "extractor", "groups": "shared", "in_proj": True}, he),
}


def mixer_of(name: str, context: int | None) -> Mixer:
    mixer = mixer_config(EQUATIONS[name][0]).build(dim=D, context=context).double()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return mixer


def papers(name: str, tensor: torch.Tensor) -> tuple[str, Array]:
    """A parameter or its gradient in the paper's orientation: torch's linear layers hold W transposed."""
    array = tensor.detach().numpy()
    return (name.removesuffix(".weight"), array.T) if name.endswith(".weight") else (name, array)


def differences(function: Callable[[], float], at: Array, eps: float = 1e-5) -> Array:
    """The central difference for each element of `at`, which is changed in place and restored."""
    grad = np.zeros_like(at)
    for position in np.ndindex(at.shape):
        kept = at[position]
        at[position] = kept + eps
        above = function()
        at[position] = kept - eps
        grad[position] = (above - function()) / (2 * eps)
        at[position] = kept
    return grad


@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize("T", [1, 4, 5, 8])
def test_outputs(name: str, T: int) -> None:
    mixer = mixer_of(name, None if "attention" in name else L)
    x = np.random.default_rng(T).normal(size=(3, T, D))
    weights = dict(papers(part, tensor) for part, tensor in mixer.named_parameters())
    expected = np.stack([EQUATIONS[name][1](row, weights) for row in x])
    actual = mixer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUATIONS)
def test_gradients(name: str) -> None:
    T, context = 4, 3
    mixer = mixer_of(name, None if "attention" in name else context)
    rng = np.random.default_rng(2)
    x, out = rng.normal(size=(T, D)), rng.normal(size=(T, D))
    weights = {part: array.copy() for part, array in (papers(p, tensor) for p, tensor in mixer.named_parameters())}
    tokens = torch.from_numpy(x.copy())[None].requires_grad_()
    (mixer(tokens)[0] * torch.from_numpy(out)).sum().backward()
    result = dict(papers(part, tensor.grad) for part, tensor in mixer.named_parameters())

    def loss() -> float:
        return float((EQUATIONS[name][1](x, weights) * out).sum())

    np.testing.assert_allclose(tokens.grad[0].numpy(), differences(loss, x), rtol=0, atol=1e-6)
    for part, array in weights.items():
        np.testing.assert_allclose(result[part], differences(loss, array), rtol=0, atol=1e-6, err_msg=part)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_attention_is_torchs(heads: int) -> None:
    """The same numbers and gradients as torch.nn.MultiheadAttention without biases."""
    mixer = mixer_config({"kind": "attention", "heads": heads}).build(dim=D, context=None).double()
    peer = nn.MultiheadAttention(D, heads, bias=False, batch_first=True).double()
    own = dict(mixer.named_parameters())
    with torch.no_grad():
        peer.in_proj_weight.copy_(own["w_qkv.weight"])
        peer.out_proj.weight.copy_(own["w_out.weight"])
    x = torch.randn(2, 7, D, dtype=torch.float64)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    grads = []
    for read in (mixer, lambda x: peer(x, x, x, attn_mask=hidden, need_weights=False)[0]):
        tokens = x.clone().requires_grad_()
        y = read(tokens)
        y.square().sum().backward()
        grads.append([y, tokens.grad])
    grads[0] += [own["w_qkv.weight"].grad, own["w_out.weight"].grad]
    grads[1] += [peer.in_proj_weight.grad, peer.out_proj.weight.grad]
    for actual, expected in zip(*grads, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 3, 9])
def test_attention_with_a_context_looks_back_so_far(window: int) -> None:
    """Each output is the last output of attention over the last `context` tokens alone."""
    near, all_of_it = mixer_of("attention, 2 heads", window), mixer_of("attention, 2 heads", None)
    x = torch.randn(1, 8, D, dtype=torch.float64)
    y = near(x)
    for i in range(8):
        expected = all_of_it(x[:, max(0, i + 1 - window) : i + 1])[:, -1]
        torch.testing.assert_close(y[:, i], expected, rtol=0, atol=1e-12)
