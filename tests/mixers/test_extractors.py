"""The paper's mixers against its equations in plain NumPy: the Extractors and attention, outputs and gradients.

Gradients are compared with central differences of the loops in `paper.py`.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.extractors.extractors import AnyExtractor
from seqloom.ops import backends
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
def test_outputs_of_extractors_are_its_equation(name: str, T: int) -> None:
    mixer = mixer_of(name, None if "attention" in name else L)
    x = np.random.default_rng(T).normal(size=(3, T, D))
    weights = dict(papers(part, tensor) for part, tensor in mixer.named_parameters())
    expected = np.stack([EQUATIONS[name][1](row, weights) for row in x])
    actual = mixer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUATIONS)
def test_gradients_of_extractors_are_differences(name: str) -> None:
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


MOST = {"she": 2 + 2, "he": 2 + 3, "we": 2 + 2, "me": 2, "he_extraction": 2 + 1}


BACKENDS = [name for name in ("fft", "native", "spectral") if name not in backends.unavailable("lag_sum")]


T, DIM, ROWS = 64, 32, 8


def kept(mixer: Mixer, rows: int) -> int:
    """Bytes, each tensor once however often it is kept."""
    result: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        result[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(rows, T, DIM, requires_grad=True)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        y = mixer(x)
    y.sum().backward()
    assert x.grad is not None
    return sum(result.values())


@pytest.mark.parametrize("kind", MOST)
@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_what_each_row_adds(kind: str, backend: str | None) -> None:
    """By difference, so that weights and what is made of them alone do not count."""
    if kind == "she" and backend == "native":
        return
    mixer = kinds()[kind]().build(DIM, T)
    with backends.use(**({"lag_sum": backend} if backend else {})):
        added = kept(mixer, 2 * ROWS) - kept(mixer, ROWS)
    assert 0 < added <= MOST[kind] * ROWS * T * DIM * 4


WIDTH, LENGTH = 4, 8


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_the_extraction_is_divided_by_the_root_of_the_position() -> None:
    """Beyond the context the terms are as many as the context."""
    torch.manual_seed(0)
    plain = AnyExtractor(groups=2, adjust=False, out_proj=False).build(WIDTH, L).double()
    scaled = AnyExtractor(groups=2, adjust=False, out_proj=False, scale="rsqrt_position").build(WIDTH, L).double()
    scaled.load_state_dict(plain.state_dict())
    x = draw(2, LENGTH, WIDTH)
    terms = torch.tensor([min(i, L) for i in range(1, LENGTH + 1)]).double()
    torch.testing.assert_close(scaled(x), plain(x) / terms.sqrt()[:, None], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_variance_of_all_positions_is_the_same() -> None:
    """As begun, a sum of i terms has i/L of the variance of a sum of L."""
    torch.manual_seed(0)
    x = torch.randn(4000, L, WIDTH, dtype=torch.float64)
    for scale, ratio in (("none", math.sqrt(L)), ("rsqrt_position", 1.0)):
        mixers = [AnyExtractor(groups="shared", adjust=False, out_proj=False, scale=scale) for _ in range(20)]
        with torch.no_grad():
            squares = [mixer.build(WIDTH, L).double()(x).square().mean((0, 2)) for mixer in mixers]
        deviations = torch.stack(squares).mean(0).sqrt().tolist()
        assert deviations[-1] / deviations[0] == pytest.approx(ratio, rel=0.3)


def test_dropped_tokens_have_no_position() -> None:
    mixer, x = AnyExtractor(scale="rsqrt_position").build(WIDTH, L).double(), draw(2, LENGTH, WIDTH)
    keep = torch.tensor([[1] * LENGTH, [0, 1, 0, 1, 1, 0, 1, 1]]).bool()
    torch.testing.assert_close(mixer(x, keep)[1][keep[1]], mixer(x[1][keep[1]][None])[0], rtol=0, atol=1e-12)


def test_it_is_causal_alone_and_changes_no_older_run() -> None:
    with pytest.raises(ValueError, match="extractor is causal: it has no bidirectional form"):
        AnyExtractor(scale="rsqrt_position").build(WIDTH, L, causal=False)
    assert AnyExtractor(scale="rsqrt_position").has_bidirectional is False
    assert AnyExtractor().has_bidirectional
    assert "scale" in AnyExtractor.later
    assert mixer_config({"kind": "extractor"}) == AnyExtractor()
