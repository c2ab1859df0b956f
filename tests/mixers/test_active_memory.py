"""Active memory against its sums, and against torch's convolutions."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from seqloom.mixers import mixer_config
from seqloom.mixers.convolution.active_memory import GatedConvolution

D, T = 4, 6


def build(kernel: int, causal: bool) -> GatedConvolution:
    mixer = mixer_config({"kind": "active_memory", "kernel": kernel}).build(D, None, causal).double()
    assert isinstance(mixer, GatedConvolution)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def as_written(mixer: GatedConvolution, x: np.ndarray, causal: bool) -> np.ndarray:
    """The sums for one row (n, D)."""
    given = {name: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    ahead = 0 if causal else mixer.kernel // 2

    def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        y = np.zeros_like(x) + b
        for t in range(len(x)):
            for lag in range(mixer.kernel):
                if 0 <= t - lag + ahead < len(x):
                    y[t] += x[t - lag + ahead] @ w[lag]
        return y

    g, r = (1 / (1 + np.exp(-convolved(x, given[f"w_{n}"], given[f"b_{n}"]))) for n in "gr")
    return g * x + (1 - g) * np.tanh(convolved(r * x, given["w"], given["b"]))


@pytest.mark.parametrize(("kernel", "causal"), [(1, True), (3, True), (4, True), (1, False), (3, False), (5, False)])
def test_it_is_the_sums_over_kept_tokens(kernel: int, causal: bool) -> None:
    mixer, x = build(kernel, causal), draw(2, T, D)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1]]).bool()
    for row, kept, y in zip(x, keep, mixer(x, keep).detach(), strict=True):
        np.testing.assert_allclose(y[kept], as_written(mixer, row[kept].numpy(), causal), rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_it_is_the_convolutional_gru_of_torchs_convolutions(causal: bool) -> None:
    """A step of the Neural GPU over a memory of one row: "SAME" padding, or on the left alone."""
    mixer, x = build(3, causal), draw(2, T, D).mT

    def convolved(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return conv1d(pad(x, (2, 0) if causal else (1, 1)), w.flip(0).permute(2, 1, 0), b)

    update = torch.sigmoid(convolved(x, mixer.w_g, mixer.b_g))
    reset = torch.sigmoid(convolved(x, mixer.w_r, mixer.b_r))
    expected = update * x + (1 - update) * torch.tanh(convolved(reset * x, mixer.w, mixer.b))
    torch.testing.assert_close(mixer(x.mT), expected.mT, rtol=0, atol=1e-12)


def test_an_even_kernel_has_no_middle() -> None:
    with pytest.raises(ValueError, match="kernel 4 has no middle: the bidirectional form needs an odd one"):
        build(4, False)
