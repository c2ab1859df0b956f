"""The RNN, the LSTM and the GRU against the papers in plain loops and against torch's modules, weights copied."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.elman import elman
from tests.mixers.recurrences.gru import gru
from tests.mixers.recurrences.lstm import lstm
from tests.ops.needing import needs_native

D = 6
RECURRENCES = {"rnn": elman, "lstm": lstm, "gru": gru}
MODULES = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
CASES: dict[str, dict[str, Any]] = {
    "rnn": {"kind": "rnn"},
    "rnn, 4 units": {"kind": "rnn", "state_dim": 4},
    "lstm": {"kind": "lstm"},
    "lstm, 9 units": {"kind": "lstm", "state_dim": 9},
    "gru before": {"kind": "gru", "reset": "before"},
    "gru after": {"kind": "gru", "reset": "after"},
    "gru before, 4 units": {"kind": "gru", "reset": "before", "state_dim": 4},
    "gru after, 4 units": {"kind": "gru", "reset": "after", "state_dim": 4},
}
OF_TORCH = [name for name in CASES if "before" not in name]
BACKENDS = ("reference", "looped", "kernel", pytest.param("native", marks=needs_native))


def mixer_of(name: str) -> Mixer:
    torch.manual_seed(7)
    mixer = mixer_config(CASES[name]).build(dim=D, context=None).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.6)
    return mixer


def papers(mixer: Mixer, kind: str) -> Weights:
    """A mixer's parameters in the paper's letters: torch's linear layers hold W transposed, gates below each other."""
    held = {name: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    N = held["w_state.weight"].shape[1]
    names = {"rnn": ("w_x", "w_h", "b"), "lstm": ("w_x{}", "w_h{}", "b_{}"), "gru": ("w_{}", "u_{}", "b_{}")}[kind]
    result = {"w_out": held["w_out.weight"].T}
    for n, gate in enumerate({"rnn": " ", "lstm": "ifgo", "gru": "rzn"}[kind]):
        block = slice(n * N, (n + 1) * N)
        for name, own in zip(names, ("w_in.weight", "w_state.weight", "w_in.bias"), strict=True):
            result[name.format(gate)] = held[own][block].T
    return result | ({"inner": held["b_n"]} if "b_n" in held else {})


def expected_output(name: str, mixer: Mixer, x: Array) -> Array:
    kind = CASES[name]["kind"]
    return RECURRENCES[kind](x, papers(mixer, kind))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_the_papers_loop(name: str, backend: str) -> None:
    if "before" in name and backend == "kernel":
        with backends.use(recurrence="kernel"), pytest.raises(ValueError, match="cannot do this"):
            mixer_of(name)(torch.zeros(1, 2, D).double())
        return
    mixer = mixer_of(name)
    for T in (1, 2, 20):
        x = np.random.default_rng(T).normal(size=(T, D))
        with backends.use(recurrence=backend):
            actual = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
        np.testing.assert_allclose(actual, expected_output(name, mixer, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    mixer = mixer_of(name)
    x = np.random.default_rng(7).normal(size=(7, D))
    state, actual = mixer.start(1), []
    for token in torch.from_numpy(x):
        y, state = mixer.step(token[None], state)
        actual.append(y[0].detach().numpy())
    np.testing.assert_allclose(np.stack(actual), expected_output(name, mixer, x), rtol=0, atol=1e-12)


class Peer(nn.Module):
    """torch's module with the mixer's weights; its second bias is 0 but for what the GRU resets."""

    def __init__(self, mixer: Mixer, kind: str) -> None:
        super().__init__()
        held = dict(mixer.named_parameters())
        N = held["w_state.weight"].shape[1]
        self.cell = MODULES[kind](D, N, batch_first=True, dtype=held["w_out.weight"].dtype)
        self.w_out = held["w_out.weight"].detach().clone().requires_grad_()
        with torch.no_grad():
            self.cell.weight_ih_l0.copy_(held["w_in.weight"])
            self.cell.weight_hh_l0.copy_(held["w_state.weight"])
            self.cell.bias_ih_l0.copy_(held["w_in.bias"])
            self.cell.bias_hh_l0.zero_()
            if "b_n" in held:
                self.cell.bias_hh_l0[2 * N :] = held["b_n"]

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0] @ self.w_out.t()

    def gradients(self, after: bool) -> dict[str, Tensor]:
        cell, N = self.cell, self.cell.hidden_size
        names = {"w_in.weight": "weight_ih_l0", "w_state.weight": "weight_hh_l0", "w_in.bias": "bias_ih_l0"}
        result = {own: getattr(cell, name).grad for own, name in names.items()} | {"w_out.weight": self.w_out.grad}
        return result | ({"b_n": cell.bias_hh_l0.grad[2 * N :]} if after else {})


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", OF_TORCH)
def test_torchs_module(name: str, dtype: torch.dtype, bound: float) -> None:
    """Outputs and every gradient."""
    mixer = mixer_of(name).to(dtype)
    peer = Peer(mixer, CASES[name]["kind"])
    x, own = (torch.from_numpy(np.random.default_rng(3).normal(size=(3, 11, D))).to(dtype) for _ in range(2))
    weigh = torch.linspace(-1, 1, 11, dtype=dtype)[:, None]
    (peer(x.requires_grad_()) * weigh).square().sum().backward()
    (mixer(own.requires_grad_()) * weigh).square().sum().backward()
    torch.testing.assert_close(mixer(own), peer(x), rtol=0, atol=bound)
    result = {each: parameter.grad for each, parameter in mixer.named_parameters()}
    pairs = {"x": (own.grad, x.grad)}
    pairs |= {each: (result[each], grad) for each, grad in peer.gradients("gru after" in name).items()}
    assert pairs.keys() - {"x"} == result.keys()
    for a, b in pairs.values():
        torch.testing.assert_close(a, b, rtol=0, atol=bound * float(b.abs().max()))


def test_the_two_resets_differ() -> None:
    before, after = mixer_of("gru before"), mixer_of("gru after")
    with torch.no_grad():
        after.b_n.zero_()
    after.load_state_dict(before.state_dict(), strict=False)
    x = torch.randn(1, 4, D, dtype=torch.float64)
    apart = (before(x) - after(x)).detach().abs().amax((0, 2))
    assert float(apart[0]) < 1e-15, "with nothing to reset they are one"
    assert float(apart[1:].min()) > 1e-3


@pytest.mark.parametrize(("bias", "shown"), [(1.0, 0.731), (-3.0, 0.047)])
def test_the_forget_gate_has_its_initial_bias(bias: float, shown: float) -> None:
    mixer = mixer_config({"kind": "lstm", "forget_bias": bias}).build(D, None)
    for _ in range(2):
        assert mixer.w_in.bias.tolist() == [0.0] * D + [bias] * D + [0.0] * 2 * D
        forget = next(view for view in mixer.views(torch.zeros(1, 1, D)) if view.name == "forget gate")
        torch.testing.assert_close(forget.values, torch.full((1, D), shown), rtol=0, atol=1e-3)
        mixer.reset(0.02)


@pytest.mark.parametrize("name", CASES)
def test_the_state_goes_through_an_orthogonal_matrix_at_first(name: str) -> None:
    mixer = mixer_config(CASES[name]).build(D, None)
    mixer.reset(0.02)
    N = mixer.w_state.weight.shape[1]
    for block in mixer.w_state.weight.split(N):
        torch.testing.assert_close(block @ block.t(), torch.eye(N), rtol=0, atol=1e-5)
    assert float(mixer.w_in.weight.detach().std()) < 0.03
