"""mLSTM against the authors' program (xlstm 2.0.6, backend vanilla), and gates beyond the range of float32."""

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.contract.test_numbers import Pieces

D = 32
KINDS = ("sigmoid", "exp")
"""of forget gates"""


def peer() -> nn.Module:
    pytest.importorskip("xlstm")
    from xlstm.blocks.mlstm.layer import mLSTMLayer, mLSTMLayerConfig

    layer = mLSTMLayer(mLSTMLayerConfig(embedding_dim=D, context_length=40, num_heads=4)).double()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return layer


def mixer_like(layer: nn.Module) -> tuple[Mixer, dict[str, Tensor]]:
    """The mixer with the peer's weights, and these as functions of the peer's parameters."""
    mixer = mixer_config({"kind": "mlstm", "heads": 4}).build(D, None).double()
    theirs = dict(layer.named_parameters())
    cell = "mlstm_cell."
    weights = {
        "w_up.weight": theirs["proj_up.weight"],
        "w_down.weight": theirs["proj_down.weight"],
        "conv.weight": theirs["conv1d.conv.weight"][:, 0].flip(1).T,
        "conv.bias": theirs["conv1d.conv.bias"],
        "qkv": torch.stack([theirs[f"{name}_proj.weight"].mT for name in "qkv"]),
        "w_gates.weight": torch.cat([theirs[f"{cell}igate.weight"], theirs[f"{cell}fgate.weight"]]),
        "w_gates.bias": torch.cat([theirs[f"{cell}igate.bias"], theirs[f"{cell}fgate.bias"]]),
        "gain": 1 + theirs[f"{cell}outnorm.weight"],
        "skip": theirs["learnable_skip"],
    }
    assert set(weights) == {name for name, _ in mixer.named_parameters()}
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(weights[name])
    return mixer, weights


@pytest.mark.parametrize("T", [1, 2, 9, 40])
def test_outputs_and_gradients_are_the_authors(T: int) -> None:
    layer = peer()
    mixer, weights = mixer_like(layer)
    x, out = torch.randn(2, T, D).double().requires_grad_(), torch.randn(2, T, D).double()
    y, expected = mixer(x), layer(x)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-10)
    actual = torch.autograd.grad((y * out).sum(), [x, *mixer.parameters()])
    parts = list(layer.parameters())
    input_gradient, *gradients = torch.autograd.grad((expected * out).sum(), [x, *parts])
    torch.testing.assert_close(actual[0], input_gradient, rtol=1e-5, atol=1e-5)  # theirs goes through 1e-6 e^{m}
    ours = [weights[name] for name, _ in mixer.named_parameters()]
    for reached, gradient in zip(torch.autograd.grad(ours, parts, actual[1:]), gradients, strict=True):
        torch.testing.assert_close(reached, gradient, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_steps_are_the_authors_but_for_the_maximum_that_theirs_begin_with() -> None:
    layer = peer()
    mixer, _ = mixer_like(layer)
    x, state, theirs = torch.randn(2, 9, D).double(), mixer.start(2), {}
    for t in range(9):
        y, state = mixer.step(x[:, t], state)
        expected, theirs = layer.step(x[:, t, None], **theirs)
        torch.testing.assert_close(y, expected[:, 0], rtol=0, atol=1e-4)
    torch.testing.assert_close(y, mixer(x)[:, -1], rtol=0, atol=1e-10)


def test_it_is_initialized_as_the_authors() -> None:
    pytest.importorskip("xlstm")
    from xlstm.blocks.mlstm.cell import mLSTMCell, mLSTMCellConfig

    theirs = mLSTMCell(mLSTMCellConfig(context_length=4, embedding_dim=2 * D, num_heads=4))
    ours = mixer_config({"kind": "mlstm", "heads": 4}).build(D, None).state_dict()
    torch.testing.assert_close(ours["w_gates.bias"][4:], theirs.fgate.bias.detach())
    assert not ours["w_gates.weight"].any()
    assert ours["gain"].eq(1).all()
    assert ours["skip"].eq(1).all()
    assert 0.8 < float(ours["qkv"].std()) / (2 / (5 * D)) ** 0.5 < 1.2


@pytest.mark.parametrize("logit", [-1e4, -100.0, 100.0, 1e4])
@pytest.mark.parametrize("gate", ["input", "forget"])
def test_gates_beyond_the_range_of_float32(gate: str, logit: float) -> None:
    """Outputs and gradients are finite, and those of float64 in pieces too."""
    mixer = mixer_config({"kind": "mlstm", "heads": 2}).build(8, None)
    with torch.no_grad():
        bias = mixer.get_parameter("w_gates.bias")
        (bias[:2] if gate == "input" else bias[2:]).fill_(logit)
    x = torch.randn(1, 300, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = mixer(x)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in mixer.parameters())
    with torch.no_grad():
        expected, state = mixer.double().extend(x[:, :77].double(), mixer.start(1))
        rest, _ = mixer.extend(x[:, 77:].double(), state)
    of_the_logit = 4 * torch.finfo(torch.float32).eps * abs(logit)  # what rounding it makes of its exponential
    torch.testing.assert_close(y.double(), torch.cat([expected, rest], 1), rtol=0, atol=1e-4 + 10 * of_the_logit)


@pytest.mark.slow
@pytest.mark.parametrize("forget", KINDS)
def test_the_maximum_has_its_gradient_through_what_is_added_to_the_normalizer(
    forget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.mixers.recurrent.mlstm.EPS", 0.5)
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "mlstm", "heads": 2, "expand": 1, "forget": forget}).build(8, None).double()
    x = torch.randn(1, 9, 8, dtype=torch.float64)

    def pieces(bias: Tensor) -> Tensor:
        return torch.func.functional_call(Pieces(mixer), {"mixer.w_gates.bias": bias}, (x,))

    assert torch.autograd.gradcheck(pieces, (mixer.get_parameter("w_gates.bias"),))


@torch.no_grad()
def test_both_forget_gates_have_the_same_initial_memory() -> None:
    sigmoid, exp = (mixer_config({"kind": "mlstm", "heads": 4, "forget": kind}).build(8, None) for kind in KINDS)
    logits, logs = (mixer.get_parameter("w_gates.bias")[4:] for mixer in (sigmoid, exp))
    torch.testing.assert_close(logits.sigmoid(), logs.exp())
    assert bool((logs < 0).all())
