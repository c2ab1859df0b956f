"""Models in int8: near the model, the same by the whole and by tokens, smaller, and refused where they do not apply."""

import pytest
import torch

import seqloom
from seqloom.layers.int8_linear import Int8Linear
from seqloom.layers.linear import Linear
from seqloom.models.kinds import model_config
from tests.hf.streaming import STREAMING, decoder_of

IDS = torch.randint(0, 31, (2, 12), generator=torch.Generator().manual_seed(0))


def check_near_and_streams(kind: str) -> None:
    """Logits within a few percent, and whole texts equal to tokens."""
    model = decoder_of(kind)
    rounded = seqloom.quantize(model)
    with torch.no_grad():
        expected, whole = model(IDS), rounded(IDS)
        assert (whole - expected).norm() < 0.1 * expected.norm()
        assert not torch.equal(whole, expected)
        _, state = rounded.extend(IDS[:, :-1], rounded.start(2))
        last, _ = rounded.step(IDS[:, -1], state)
    torch.testing.assert_close(last, whole[:, -1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["attention", "gated_delta", "hyena", "rwkv7"])
def test_it_is_near_and_streams(kind: str) -> None:
    check_near_and_streams(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STREAMING)
def test_every_kind_is_near_and_streams(kind: str) -> None:
    check_near_and_streams(kind)


def test_a_layer_rounds_each_row_and_each_token() -> None:
    torch.manual_seed(0)
    linear = Linear(24, 7).double()
    x = torch.randn(2, 3, 24, dtype=torch.float64) * torch.tensor([1e-3, 1.0, 1e3])[:, None]
    with torch.no_grad():
        y = Int8Linear.of(linear)(x)
        s, r = linear.weight.abs().amax(1) / 127, x.abs().amax(-1, keepdim=True) / 127
        products = (x / r).round() @ (linear.weight / s[:, None]).round().T
        torch.testing.assert_close(y, products * r * s + linear.bias, rtol=1e-12, atol=0)
        assert torch.equal(Int8Linear.of(linear)(x[:1])[0], y[0])
        assert (Int8Linear.of(linear)(torch.zeros(1, 24, dtype=torch.float64)) == linear.bias).all()


def test_the_model_stays_and_all_else_is_shared() -> None:
    model = decoder_of("gated_delta")
    rounded = seqloom.quantize(model)
    assert not any(isinstance(module, Int8Linear) for module in model.modules())
    assert rounded.token.weight is model.token.weight
    layers = [module for module in rounded.modules() if isinstance(module, Int8Linear)]
    assert all(layer.rounded.element_size() == 1 for layer in layers)
    assert rounded.cost(8).mul == model.cost(8).mul


def test_a_matrix_that_a_mixer_reads_itself_stays() -> None:
    rounded = seqloom.quantize(decoder_of("mamba2"))
    assert type(rounded.mixers[0].w_in) is Linear
    assert type(rounded.mixers[0].w_out) is Int8Linear


def test_what_does_not_apply_is_refused() -> None:
    rounded = seqloom.quantize(decoder_of("gru"))
    x = torch.randn(2, 16, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="has no gradients"):
        rounded.head(x)
    with pytest.raises(ValueError, match="is not saved"):
        seqloom.save(rounded, "never")
    with pytest.raises(ValueError, match="in int8 already"):
        seqloom.quantize(rounded)
    mixer = {"kind": "gru"}
    encoder = {"depth": 1, "mixer": mixer}
    seq2seq = model_config(
        {"kind": "seq2seq", "vocab": 31, "dim": 16, "depth": 1, "context": 8, "mixer": mixer, "encoder": encoder}
    ).build()
    with pytest.raises(ValueError, match="kind seq2seq reads more than ids"):
        seqloom.quantize(seq2seq)
    with pytest.raises(TypeError, match="model is one that"):
        seqloom.quantize("model")
