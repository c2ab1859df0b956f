"""The mixer that does not mix: two projections of each token."""

import torch

from seqloom.mixers import mixer_config


@torch.no_grad()
def test_identity_is_two_projections_of_each_token() -> None:
    mixer, x = mixer_config({"kind": "identity"}).build(6, None).double(), torch.randn(2, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), x @ mixer.w_v.weight.T @ mixer.w_out.weight.T, rtol=0, atol=1e-12)
