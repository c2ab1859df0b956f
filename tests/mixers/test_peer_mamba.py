"""Mamba and Falcon Mamba of `transformers` against the mixer: outputs, gradients and cached steps, weights copied.

The peer rounds rates and inputs to float32 wherever its kernels are missing, so both run in float32 here.
"""

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config

D = 8
transformers = pytest.importorskip("transformers")
SIZES = {"state_dim": 5, "kernel": 3, "dt_rank": 2}
PARTS = {
    **{"in_proj.weight": "in_proj.weight", "out_proj.weight": "out_proj.weight", "x_proj.weight": "x_proj.weight"},
    **{"dt_proj.weight": "dt_proj.weight", "dt_proj.bias": "dt_proj.bias", "a_log": "A_log", "d": "D"},
    **{"conv_weight": "conv1d.weight", "conv_bias": "conv1d.bias"},
}
"""the peer's name of each of the mixer's parameters"""


both = pytest.mark.parametrize("kind", ["Mamba", "FalconMamba"])
NORM = {"Mamba": {}, "FalconMamba": {"norm_eps": 1e-6}}


def peer(kind: str, layers: int) -> nn.Module:
    """The peer's whole model, with weights large enough to be seen."""
    config = getattr(transformers, f"{kind}Config")(
        **{"vocab_size": 11, "hidden_size": D, "state_size": SIZES["state_dim"], "num_hidden_layers": layers},
        **{"conv_kernel": SIZES["kernel"], "time_step_rank": SIZES["dt_rank"], "expand": 2, "use_mambapy": False},
    )
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}Model")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def as_ours(name: str, theirs: Tensor) -> Tensor:
    """The peer's taps are (E, 1, W), the oldest first."""
    return theirs[:, 0].flip(1).T if name == "conv_weight" else theirs


def mixer_like(kind: str, module: nn.Module) -> Mixer:
    mixer = mixer_config({"kind": "mamba", **SIZES, **NORM[kind]}).build(dim=D, context=None)
    theirs = dict(module.named_parameters())
    assert set(PARTS) == {name for name, _ in mixer.named_parameters()}
    assert set(PARTS.values()) == set(theirs)
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(as_ours(name, theirs[PARTS[name]]))
    return mixer


@both
@pytest.mark.parametrize("T", [1, 2, 7, 40])
def test_the_mixer_is_the_peers(kind: str, T: int) -> None:
    module = peer(kind, 1).layers[0].mixer
    mixer = mixer_like(kind, module)
    x, out, actual = torch.randn(2, T, D), torch.randn(2, T, D), []
    for part, read in ((mixer, mixer), (module, module)):
        tokens = x.clone().requires_grad_()
        y = read(tokens)
        (y * out).sum().backward()
        actual.append((y, tokens.grad, {name: parameter.grad for name, parameter in part.named_parameters()}))
    (y, grad, ours), (expected, their_grad, theirs) = actual
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grad, their_grad, rtol=1e-4, atol=1e-5)
    for name in PARTS:
        scale = float(theirs[PARTS[name]].abs().max())
        torch.testing.assert_close(
            ours[name], as_ours(name, theirs[PARTS[name]]), rtol=1e-4, atol=1e-5 * max(1.0, scale), msg=name
        )


@pytest.mark.slow
@both
@torch.no_grad()
def test_the_model_is_the_peers_and_so_are_its_cached_steps(kind: str) -> None:
    """Our mixers between the peer's norms: a prompt of three tokens, then one token at a time."""
    model, ids = peer(kind, 2).eval(), torch.randint(11, (2, 9))
    mixers = [mixer_like(kind, layer.mixer) for layer in model.layers]
    states = [mixer.start(2) for mixer in mixers]
    cache = None
    for first, last in ((0, 3), *((t, t + 1) for t in range(3, 9))):
        given = ids[:, first:last]
        output = model(input_ids=given, cache_params=cache, use_cache=True)
        cache, x = output.cache_params, model.embeddings(given)
        for n, (layer, mixer) in enumerate(zip(model.layers, mixers, strict=True)):
            normed = layer.norm(x)
            if last - first > 1:
                y, states[n] = mixer.extend(normed, states[n])
            else:
                y, states[n] = mixer.step(normed[:, 0], states[n], reuse=True)
            x = x + (y if y.ndim == 3 else y[:, None])
        torch.testing.assert_close(model.norm_f(x), output.last_hidden_state, rtol=1e-4, atol=1e-5)
    x = model.embeddings(ids)
    for layer, mixer in zip(model.layers, mixers, strict=True):
        x = x + mixer(layer.norm(x))
    torch.testing.assert_close(model.norm_f(x), model(input_ids=ids).last_hidden_state, rtol=1e-4, atol=1e-5)


def test_both_have_the_same_initial_values() -> None:
    """The same rates and passing on, steps and taps within the same bounds."""
    config = transformers.MambaConfig(hidden_size=64, num_hidden_layers=1, vocab_size=4)
    theirs, ours = transformers.MambaModel(config).layers[0].mixer, mixer_config({"kind": "mamba"}).build(64, None)
    torch.testing.assert_close(ours.a_log, theirs.A_log)
    torch.testing.assert_close(ours.d, theirs.D)
    for module in (theirs, ours):
        steps = nn.functional.softplus(module.dt_proj.bias.detach())
        assert 0.9e-3 < float(steps.min()) < 3e-3 < 3e-2 < float(steps.max()) < 0.11
        assert 0.9 < float(module.dt_proj.weight.detach().abs().max()) * module.dt_proj.weight.shape[1] ** 0.5 <= 1
    assert ours.dt_proj.weight.shape == theirs.dt_proj.weight.shape
    assert 0.45 < float(ours.conv_weight.abs().max()) <= 0.5
