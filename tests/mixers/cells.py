"""RNN, LSTM and GRU against their papers' loops and against torch's modules, weights copied."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.ops.needing import needs_native

D = 6
Recurrence: TypeAlias = Callable[[Array, Weights], Array]
Settings: TypeAlias = dict[str, Any]
MODULES = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
BACKENDS = ("reference", "looped", "kernel", pytest.param("native", marks=needs_native))


def mixer_of(settings: Settings) -> Mixer:
    torch.manual_seed(7)
    mixer = mixer_config(settings).build(dim=D, context=None).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.6)
    return mixer


def paper_weights(mixer: Mixer, kind: str) -> Weights:
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


def check_recurrence(settings: Settings, recurrence: Recurrence, backend: str) -> None:
    """Outputs of a backend against the paper's loop."""
    mixer = mixer_of(settings)
    for T in (1, 2, 20):
        x = np.random.default_rng(T).normal(size=(T, D))
        with backends.use(recurrence=backend):
            y = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
        expected = recurrence(x, paper_weights(mixer, settings["kind"]))
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)


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


def check_module_of_torch(settings: Settings, dtype: torch.dtype) -> None:
    """Outputs and every gradient."""
    bound = 1e-12 if dtype == torch.float64 else 1e-5
    mixer = mixer_of(settings).to(dtype)
    peer = Peer(mixer, settings["kind"])
    x, own = (torch.from_numpy(np.random.default_rng(3).normal(size=(3, 11, D))).to(dtype) for _ in range(2))
    weigh = torch.linspace(-1, 1, 11, dtype=dtype)[:, None]
    (peer(x.requires_grad_()) * weigh).square().sum().backward()
    (mixer(own.requires_grad_()) * weigh).square().sum().backward()
    torch.testing.assert_close(mixer(own), peer(x), rtol=0, atol=bound)
    result = {each: parameter.grad for each, parameter in mixer.named_parameters()}
    pairs = {"x": (own.grad, x.grad)}
    pairs |= {each: (result[each], grad) for each, grad in peer.gradients(settings.get("reset") == "after").items()}
    assert pairs.keys() - {"x"} == result.keys()
    for a, b in pairs.values():
        torch.testing.assert_close(a, b, rtol=0, atol=bound * float(b.abs().max()))


def check_orthogonal(settings: Settings) -> None:
    """A state goes through an orthogonal matrix at first."""
    mixer = mixer_config(settings).build(D, None)
    mixer.reset(0.02)
    N = mixer.w_state.weight.shape[1]
    for block in mixer.w_state.weight.split(N):
        torch.testing.assert_close(block @ block.t(), torch.eye(N), rtol=0, atol=1e-5)
    assert float(mixer.w_in.weight.detach().std()) < 0.03
