"""A mixer is checked before it is timed, with the tolerance of float32."""

import pytest
import torch

from seqloom.mixers import mixer_config
from seqloom.studies.check_outputs import require_agreement


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_gradient_that_is_0_but_for_rounding_is_not_wrong(seed: int) -> None:
    """With so many buckets 16 tokens read no more than one key each, and then queries have no gradient."""
    torch.manual_seed(seed)
    mixer = mixer_config({"kind": "reformer"}).build(256, 8192)
    require_agreement("reformer", mixer, torch.randn(2, 64, 256), {"bucketing": ["blocks"]}, "sublayer")


@pytest.mark.slow
def test_a_gradient_of_another_size_is_wrong() -> None:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "attention"}).build(64, None)
    mixer.w_out.weight.register_hook(lambda gradient: 1.001 * gradient)
    with pytest.raises(ValueError, match=r"attention is wrong here and is not timed: the gradient of w_out\.weight"):
        require_agreement("attention", mixer, torch.randn(2, 32, 64), {}, "sublayer")
