"""Mamba, and S6 alone, against their papers' recurrences and transformers' Mamba; initial values, training, views.

The peer rounds rates and inputs to float32 wherever its kernels are missing, so both run in float32.
"""

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.equation import SELECTIVE, Case, check_equation, check_long
from tests.mixers.recurrences.mamba import mamba

D = 8
CASES = {
    "mamba": {"kind": "mamba"},
    "mamba, other sizes": {"kind": "mamba", "state_dim": 3, "expand": 3, "kernel": 6, "dt_rank": 2},
    "mamba, one tap": {"kind": "mamba", "state_dim": 2, "kernel": 1},
    "s6": {"kind": "s6"},
    "s6, other sizes": {"kind": "s6", "state_dim": 3, "dt_rank": 5},
}
every_case = pytest.mark.parametrize("name", CASES)


def made(name: str, dim: int = D) -> Mixer:
    torch.manual_seed(1)
    return mixer_config(CASES[name]).build(dim=dim, context=None).double()


@every_case
@pytest.mark.parametrize("backend", ["reference", "sequential", "doubling"])
def test_steps_and_pieces_without_native_code(name: str, backend: str) -> None:
    mixer, x = made(name), torch.randn(2, 7, D, dtype=torch.float64)
    with torch.no_grad(), backends.use(selective_scan=backend):
        first, state = mixer.extend(x[:, :3], mixer.start(2))
        outputs = [*first.unbind(1)]
        for t in range(3, 7):
            y, state = mixer.step(x[:, t], state, reuse=t > 4)
            outputs.append(y)
        whole = mixer(x)
    torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole, mixer(x).detach(), rtol=0, atol=1e-12)


@every_case
def test_initial_values_and_reset(name: str) -> None:
    torch.manual_seed(0)
    mixer = mixer_config(CASES[name]).build(dim=96, context=None)
    for again in (False, True):
        if again:
            with torch.no_grad():
                for parameter in mixer.parameters():
                    parameter.fill_(9.0)
            mixer.reset(0.02)
        rates = mixer.a_log.exp()
        torch.testing.assert_close(rates, torch.arange(1.0, rates.shape[1] + 1).expand_as(rates))
        assert bool((mixer.d == 1).all())
        steps = torch.nn.functional.softplus(mixer.dt_proj.bias.detach())
        assert 0.99e-3 < float(steps.min()) < 2e-3 < 5e-2 < float(steps.max()) < 0.101
        assert 0.3 < float((steps < 1e-2).float().mean()) < 0.7, "not log-uniform"
        rank = mixer.dt_proj.weight.shape[1]
        assert 0.9 < float(mixer.dt_proj.weight.detach().abs().max()) * rank**0.5 <= 1
    assert 0.015 < float(mixer.x_proj.weight.detach().std()) < 0.025


def test_the_floor_of_the_steps() -> None:
    mixer = mixer_config({"kind": "mamba", "dt_min": 1e-9, "dt_max": 1e-8}).build(16, None)
    torch.testing.assert_close(torch.nn.functional.softplus(mixer.dt_proj.bias), torch.full((32,), 1e-4))
    for kind in ("mamba", "s6"):
        with pytest.raises(ValueError, match="longer than the longest"):
            mixer_config({"kind": kind, "dt_min": 0.2})


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_rates_and_what_is_passed_on_are_not_decayed(kind: str) -> None:
    mixer = made(kind)
    rest, special = mixer.param_groups()
    assert special["weight_decay"] == 0.0
    assert {id(each) for each in special["params"]} == {id(mixer.a_log), id(mixer.d)}
    assert len(rest["params"]) + 2 == len(list(mixer.parameters()))


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_views_are_of_the_first_row(kind: str) -> None:
    mixer, x = made(kind), torch.randn(2, 6, D, dtype=torch.float64)
    with torch.no_grad():
        views = {view.name: view for view in mixer.plots(x)}
        assert bool((views["step"].values > 0).all())
        torch.testing.assert_close(views["rate"].values, mixer.a_log.exp())
        assert views["step"].values.shape == (6, len(mixer.a_log))


@pytest.mark.parametrize("kind", ["mamba", "s6"])
@torch.no_grad()
def test_long_and_large(kind: str) -> None:
    """16,384 tokens, and tokens of 1e4, in float32."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": kind, "state_dim": 2}).build(4, None)
    x = torch.randn(1, 16_384, 4)
    y = mixer(x)
    expected = mixer.double()(x.double())
    assert float((y - expected).norm() / expected.norm()) < 1e-5
    assert bool(mixer.float()(1e4 * x[:, :99]).isfinite().all())


LETTERS = {
    **{**SELECTIVE, "conv_weight": "taps", "conv_bias": "b_taps"},
    **{"in_proj.weight": "w_in", "out_proj.weight": "w_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "mamba": ({"kind": "mamba", "state_dim": 4}, mamba),
    "mamba, the paper's sizes": ({"kind": "mamba"}, mamba),
    "mamba, one tap": ({"kind": "mamba", "state_dim": 2, "kernel": 1}, mamba),
    "mamba, wider": ({"kind": "mamba", "state_dim": 3, "expand": 3, "kernel": 2, "dt_rank": 2}, mamba),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_mamba_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_mamba_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)


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
    transformers = pytest.importorskip("transformers")
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
    transformers = pytest.importorskip("transformers")
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
