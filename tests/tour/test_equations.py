"""The functions that a reader copies compute what the mixers do."""

import torch

import seqloom
from seqloom.tour import equations, layers

T, D = 9, 12


def test_attention_is_that_of_the_mixer() -> None:
    torch.manual_seed(0)
    mixer = seqloom.mixer("attention", dim=D, context=T, heads=1).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    q, k, v = mixer.w_qkv(x)[0].split(D, -1)
    y, weights = equations.attention(q, k, v)
    torch.testing.assert_close(mixer.w_out(y), mixer(x)[0])
    torch.testing.assert_close(weights[None], layers.attention_weights(mixer, x))
    assert torch.equal(weights, weights.tril())


def test_the_he_extractor_is_that_of_the_mixer() -> None:
    for context in (4, T, 20):
        torch.manual_seed(1)
        mixer = seqloom.mixer("he", dim=D, context=context).double()
        x = torch.randn(1, T, D, dtype=torch.float64)
        y = equations.he_extractor(mixer.w_in(x)[0], mixer.w_adj(x)[0], layers.extractor_taps(mixer, x))
        torch.testing.assert_close(mixer.w_out(y), mixer(x)[0])


def test_the_gated_delta_rule_is_that_of_the_mixer() -> None:
    torch.manual_seed(2)
    mixer = seqloom.mixer("gated_delta", dim=D, context=T, heads=1, key_width=3, value_width=4).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    qkv, _ = mixer.conv(mixer.w_qkv(x), None)
    q, k, v = qkv[0].split([3, 3, 4], -1)
    q = q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt() / 3**0.5
    k = k / (k.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    y, tables = equations.gated_delta(q, k, v, mixer.log_decay(x[0]).exp()[:, 0], mixer.strength(x[0])[:, 0])
    normed = mixer.norm(y[None, None], mixer.gate(x))
    torch.testing.assert_close(mixer.w_o(normed), mixer(x))
    _, state = mixer.extend(x, mixer.start(1))
    torch.testing.assert_close(tables[-1], state["S"][0, 0])
