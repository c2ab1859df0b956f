"""Precision and sizes of a token of a whole mixer of the delta rule in C, beyond `test_one_token`."""

import pytest
import torch
from torch import nn

from seqloom.mixers.linear.gated_delta import GatedDelta, GatedDeltaConfig
from seqloom.ops.delta_rule import mixing
from tests.ops.needing import needs_native
from tests.ops.test_one_token import built

pytestmark = needs_native


@pytest.mark.parametrize("g", [-1e-5, -1e-3])
def test_a_decay_near_1_is_not_rounded_to_another(g: float) -> None:
    """e^g in float32, to the power of 4,096 tokens, would be off by up to 2e-4."""
    mixer = built(4, GatedDeltaConfig(heads=1, key_width=1, value_width=1, kernel=1), torch.float32)
    for parameter in (mixer.w_a.weight, mixer.w_b.weight):
        parameter.zero_()
    mixer.w_a.bias.fill_(1.0)
    mixer.a_log.copy_((torch.tensor(-g, dtype=torch.float64) / nn.functional.softplus(torch.ones(1).double())).log())
    mixer.w_qkv.weight[1] = 0  # no key: nothing is written or erased
    state = mixer.start(1)
    state["S"].fill_(1.0)
    for _ in range(4096):
        _, state = mixer.step(torch.ones(1, 4), state, reuse=True)
    exact = mixer.a_log.double().exp().neg() * nn.functional.softplus(torch.ones(1).double())
    assert abs(float(state["S"].double() / (4096 * exact).exp()) - 1) < 3e-5


def test_sizes_that_do_not_belong_together_are_errors() -> None:
    mixer: GatedDelta = built(8, GatedDeltaConfig(heads=2, value_heads=4, key_width=2, value_width=3))
    x, state = torch.ones(1, 8).double(), mixer.start(1)
    layers = mixing.Layers(*(mixer.w_qkv, mixer.conv, mixer.w_b, mixer.norm, mixer.w_o, mixer.a_log), rate=mixer.w_a)
    assert mixing.token(x, state, False, layers, 2, 1.0) is not None
    for wrong, says in (
        (layers._replace(a_log=None), "no such mixer"),
        (layers._replace(rate_in=mixer.w_b), "no such mixer"),
        (layers._replace(out=mixer.w_b), "w_o must be"),
        (layers._replace(rate=mixer.w_o), "no such mixer|b_a must be|must be"),
    ):
        with pytest.raises(ValueError, match=says):
            mixing.token(x, state, False, wrong, 2, 1.0)
    with pytest.raises(ValueError, match="must be"):
        mixing.token(x, state, False, layers, 3, 1.0)
