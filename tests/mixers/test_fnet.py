"""FNet against its sums, with and without dropped tokens, and against `transformers`."""

import cmath
import math

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config


def build(dim: int, **settings: object) -> Mixer:
    return mixer_config({"kind": "fnet", **settings}).build(dim, None, causal=False).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def as_written(x: Tensor) -> Tensor:
    """The sums for one row (n, D), term by term."""
    n, D = x.shape
    y = torch.zeros_like(x)
    for s in range(n):
        for c in range(D):
            y[s, c] = sum(
                (x[t, d].item() * cmath.exp(-2j * math.pi * (s * t / n + c * d / D))).real
                for t in range(n)
                for d in range(D)
            )
    return y


@pytest.mark.parametrize(("T", "D"), [(1, 4), (5, 6), (6, 5), (2, 1)])
@pytest.mark.parametrize("scaled", [False, True])
def test_it_is_the_sums(T: int, D: int, scaled: bool) -> None:
    x = draw(2, T, D)
    expected = torch.stack([as_written(row) for row in x]) / (math.sqrt(T * D) if scaled else 1)
    torch.testing.assert_close(build(D, scaled=scaled)(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_tokens_of_a_row_are_its_kept_ones(scaled: bool) -> None:
    x, mixer = draw(3, 7, 6), build(6, scaled=scaled)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0]]).bool()
    y = mixer(x, keep)
    for row, kept, result in zip(x, keep, y, strict=True):
        torch.testing.assert_close(result[kept], mixer(row[kept][None])[0], rtol=0, atol=1e-12)
        assert not result[~kept].any()


def test_outputs_are_as_large_as_inputs_where_they_are_scaled() -> None:
    x = draw(1, 256, 64)
    assert build(64, scaled=True)(x).std().item() == pytest.approx(math.sqrt(1 / 2), rel=0.05)
    assert build(64)(x).std().item() == pytest.approx(math.sqrt(256 * 64 / 2), rel=0.05)


def test_it_has_no_parameters_and_no_causal_form() -> None:
    assert not list(build(6).parameters())
    assert build(6).cost(4).params == 0
    with pytest.raises(ValueError, match="so a decoder cannot use it; the nearest kind that has one is me"):
        mixer_config({"kind": "fnet"}).build(6, 4)


def test_outputs_and_gradients_are_those_of_transformers() -> None:
    fnet = pytest.importorskip("transformers.models.fnet.modeling_fnet")
    config = fnet.FNetConfig(hidden_size=6, use_tpu_fourier_optimizations=False)
    theirs = fnet.FNetBasicFourierTransform(config).double()
    x = draw(2, 5, 6).requires_grad_()
    for run in (build(6), lambda x: theirs(x)[0]):
        y = run(x)
        (slope,) = torch.autograd.grad((y * draw(2, 5, 6)).sum(), x)
        if isinstance(run, Mixer):
            expected = (y, slope)
        else:
            torch.testing.assert_close((y, slope), expected, rtol=0, atol=1e-12)


def test_transformers_reads_padding_as_tokens() -> None:
    fnet = pytest.importorskip("transformers.models.fnet.modeling_fnet")
    theirs = fnet.FNetBasicFourierTransform(fnet.FNetConfig(hidden_size=6)).double()
    x = draw(1, 5, 6)
    padded = torch.cat([x, torch.zeros(1, 2, 6, dtype=torch.float64)], 1)
    assert (theirs(padded)[0][:, :5] - theirs(x)[0]).abs().max() > 1
    keep = torch.tensor([[True] * 5 + [False] * 2])
    torch.testing.assert_close(build(6)(padded, keep)[:, :5], theirs(x)[0], rtol=0, atol=1e-12)
