"""RWKV-4 of `transformers` against the paper's recurrence and the mixer: outputs and gradients, weights copied.

The peer's path without CUDA rounds keys to float32. Tokens, shares and key weights are therefore multiples of 1/8 and
1/4 here, so that every key is a float32 number: outputs then agree in float64. Gradients still pass through that
rounding.
"""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.recurrences.rwkv import channel_mixing, time_mixing

D = 8
transformers = pytest.importorskip("transformers")


def coarse(*shape: int, of: int) -> Tensor:
    """Numbers from -1 to 1 in steps of 1/of."""
    return torch.randint(-of, of + 1, shape, dtype=torch.float64) / of


def peer(block: str) -> nn.Module:
    """A time or channel mixing block of the peer, in float64, with coarse weights."""
    config = transformers.RwkvConfig(hidden_size=D, num_hidden_layers=1, vocab_size=4, context_length=32)
    torch.manual_seed(3)
    module = getattr(transformers.models.rwkv.modeling_rwkv, block)(config).double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(coarse(*parameter.shape, of=4 if "time_mix" in name else 8))
    return module


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    """The peer's parameters by the paper's letters."""
    ours = {"key": "k", "value": "v", "receptance": "r"}
    result = {}
    for name, tensor in module.named_parameters():
        array = tensor.detach().numpy()
        if name.startswith("time_mix_"):
            result[f"mu_{ours[name.removeprefix('time_mix_')]}"] = array.reshape(-1)
        elif name == "output.weight":
            result["w_out"] = array.T
        elif name.endswith(".weight"):
            result[f"w_{ours[name.removesuffix('.weight')]}"] = array.T
    if "w_out" in result:
        result |= {"decay": np.exp(module.time_decay.detach().numpy()), "bonus": module.time_first.detach().numpy()}
    return result


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_recurrence_is_the_peers_time_mixing(T: int) -> None:
    module, x = peer("RwkvSelfAttention"), coarse(1, T, D, of=8)
    expected = module(x)[0][0].detach().numpy()
    np.testing.assert_allclose(time_mixing(x[0].numpy(), weights(module)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_recurrence_is_the_peers_channel_mixing(T: int) -> None:
    module, x = peer("RwkvFeedForward"), coarse(1, T, D, of=8)
    expected = module(x)[0][0].detach().numpy()
    np.testing.assert_allclose(channel_mixing(x[0].numpy(), weights(module)), expected, rtol=0, atol=1e-12)


PARTS = {
    **{"mu_k": "time_mix_key", "mu_v": "time_mix_value", "mu_r": "time_mix_receptance"},
    **{"w_k.weight": "key.weight", "w_v.weight": "value.weight", "w_r.weight": "receptance.weight"},
    **{"w_out.weight": "output.weight", "log_rate": "time_decay", "bonus": "time_first"},
}
"""the peer's name of each of the mixer's parameters"""


def mixer_like(module: nn.Module) -> Mixer:
    mixer = mixer_config({"kind": "rwkv"}).build(dim=D, context=32).double()
    theirs = dict(module.named_parameters())
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(theirs[PARTS[name]].reshape(parameter.shape))
    return mixer


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_mixer_is_the_peers_time_mixing(T: int) -> None:
    module = peer("RwkvSelfAttention")
    mixer = mixer_like(module)
    x, out = coarse(2, T, D, of=8), torch.randn(2, T, D, dtype=torch.float64)
    grads = []
    for part, read in ((mixer, mixer), (module, lambda x: module(x)[0])):
        tokens = x.clone().requires_grad_()
        y = read(tokens)
        (y * out).sum().backward()
        grads.append((y, tokens.grad, dict(part.named_parameters())))
    (y, grad, ours), (expected, their_grad, theirs) = grads
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(grad, their_grad, rtol=1e-6, atol=1e-6)
    assert set(ours) == set(PARTS)
    for name, parameter in ours.items():
        actual, wanted_grad = (
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in (parameter, theirs[PARTS[name]])
        )
        torch.testing.assert_close(actual, wanted_grad, rtol=1e-6, atol=1e-6, msg=name)
