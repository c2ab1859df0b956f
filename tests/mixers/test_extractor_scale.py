"""The extractor whose sums are divided by the root of their number of terms."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.extractors.extractors import AnyExtractor

D, L, T = 4, 5, 8


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_the_extraction_is_divided_by_the_root_of_the_position() -> None:
    """Beyond the context the terms are as many as the context."""
    torch.manual_seed(0)
    plain = AnyExtractor(groups=2, adjust=False, out_proj=False).build(D, L).double()
    scaled = AnyExtractor(groups=2, adjust=False, out_proj=False, scale="rsqrt_position").build(D, L).double()
    scaled.load_state_dict(plain.state_dict())
    x = draw(2, T, D)
    terms = torch.tensor([min(i, L) for i in range(1, T + 1)]).double()
    torch.testing.assert_close(scaled(x), plain(x) / terms.sqrt()[:, None], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_variance_of_all_positions_is_the_same() -> None:
    """As begun, a sum of i terms has i/L of the variance of a sum of L."""
    torch.manual_seed(0)
    x = torch.randn(4000, L, D, dtype=torch.float64)
    for scale, ratio in (("none", math.sqrt(L)), ("rsqrt_position", 1.0)):
        mixers = [AnyExtractor(groups="shared", adjust=False, out_proj=False, scale=scale) for _ in range(20)]
        with torch.no_grad():
            squares = [mixer.build(D, L).double()(x).square().mean((0, 2)) for mixer in mixers]
        deviations = torch.stack(squares).mean(0).sqrt().tolist()
        assert deviations[-1] / deviations[0] == pytest.approx(ratio, rel=0.3)


def test_dropped_tokens_have_no_position() -> None:
    mixer, x = AnyExtractor(scale="rsqrt_position").build(D, L).double(), draw(2, T, D)
    keep = torch.tensor([[1] * T, [0, 1, 0, 1, 1, 0, 1, 1]]).bool()
    torch.testing.assert_close(mixer(x, keep)[1][keep[1]], mixer(x[1][keep[1]][None])[0], rtol=0, atol=1e-12)


def test_it_is_causal_alone_and_changes_no_older_run() -> None:
    with pytest.raises(ValueError, match="extractor is causal: it has no bidirectional form"):
        AnyExtractor(scale="rsqrt_position").build(D, L, causal=False)
    assert AnyExtractor(scale="rsqrt_position").has_bidirectional is False
    assert AnyExtractor().has_bidirectional
    assert "scale" in AnyExtractor.later
    assert mixer_config({"kind": "extractor"}) == AnyExtractor()
