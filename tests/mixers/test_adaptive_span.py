"""Adaptive span against its equation key by key, its loss and its clip, and that keys beyond the spans are not read."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.analysis.whole import whole as of_settings
from seqloom.cli import command
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.ops.attention.adaptive_span import attend_spans
from seqloom.ops.backends import use

D, H, T = 8, 2, 22
MIXER = {"kind": "adaptive_span", "heads": H, "span": 9, "ramp": 4}


def build(context: int | None = T, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = mixer_config({**MIXER, **settings})
    mixer = config.build(D, context).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    if mixer.extent is not None:
        mixer.extent.data = torch.tensor([0.2, 0.7], dtype=torch.float64)
    return mixer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("backend", ["reference", "tiles"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_adaptive_span_is_its_equation(dynamic: bool, backend: str) -> None:
    mixer, x = build(dynamic=dynamic), draw(T, D)
    q, k, v = (x @ mixer.w_qkv.weight.T).view(T, 3, H, -1).unbind(1)
    if dynamic:
        spans = 9 * torch.sigmoid(x @ mixer.w_span.weight.T + mixer.w_span.bias)
    else:
        spans = (9 * mixer.extent).expand(T, H)
    y = torch.zeros(T, H, D // H, dtype=torch.float64)
    for i in range(T):
        for h in range(H):
            m = torch.stack([((4 + spans[i, h] - (i - j)) / 4).clamp(0, 1) for j in range(i + 1)])
            e = m * torch.exp(k[: i + 1, h] @ q[i, h] / (D // H) ** 0.5)
            y[i, h] = e / e.sum() @ v[: i + 1, h]
    with use(adaptive_span=backend):
        torch.testing.assert_close(mixer(x[None])[0], y.flatten(1) @ mixer.w_out.weight.T, rtol=0, atol=1e-12)


def test_a_text_of_several_tiles_and_its_gradients() -> None:
    """Under the largest window the mask alone ends the spans: cutting the keys off changes nothing."""
    q, k, v = (draw(1, H, 300, 4, seed=n).requires_grad_() for n in range(3))
    spans = torch.tensor([[[3.5], [20.0]]], dtype=torch.float64, requires_grad=True)
    results = []
    for window in (24, 300):
        y = attend_spans(q, k, v, spans, ramp=4, window=window)
        results.append([y, *torch.autograd.grad(y.square().sum(), (q, k, v, spans))])
    for cut, whole in zip(*results, strict=True):
        torch.testing.assert_close(cut, whole, rtol=0, atol=1e-10)
    assert results[0][4].abs().min() > 0


def test_keys_beyond_the_largest_span_are_not_computed() -> None:
    """4 + 9 · 0.7 are 11 keys; the price counts no more."""
    mixer = build()
    assert mixer.window == 11
    before = mixer.cost(T)
    mixer.extent.data.fill_(0.0)
    assert mixer.window == 4
    assert mixer.cost(T).mul < before.mul
    x = draw(1, 300, D)
    x[0, :250] = torch.nan  # the last tile of queries begins at 256 and reads from 253
    y = mixer(x)[0]
    assert y[256:].isfinite().all()
    assert y[:250].isnan().all()


def test_the_mean_span_is_a_loss_that_moves_spans_and_the_range_holds() -> None:
    mixer, x = build(penalty=0.5), draw(2, T, D)
    _, extras = mixer.forward_with_extras(x)
    assert mixer.loss_weights == {"span": 0.5}
    torch.testing.assert_close(extras.losses["span"], 9 * mixer.extent.mean())
    extras.losses["span"].backward()
    torch.testing.assert_close(mixer.extent.grad, torch.full((H,), 9 / H, dtype=torch.float64))
    mixer.extent.data = torch.tensor([-0.3, 1.2], dtype=torch.float64)
    mixer.after_update(1, {})
    assert mixer.extent.tolist() == [0.0, 1.0]


def test_the_mean_of_dynamic_spans_is_that_of_kept_tokens() -> None:
    mixer, x = build(dynamic=True), draw(2, T, D)
    keep = torch.rand(2, T, generator=torch.Generator().manual_seed(0)) < 0.7
    expected = mixer.spans(x).transpose(1, 2)[keep].mean()
    torch.testing.assert_close(mixer.forward_with_extras(x, keep)[1].losses["span"], expected)


def test_spans_are_a_view() -> None:
    spans = build().plots(draw(1, 5, D))[0]
    assert (spans.name, spans.axes) == ("spans", ("head",))
    torch.testing.assert_close(spans.values, torch.tensor([1.8, 6.3], dtype=torch.float64))
    assert build(dynamic=True).plots(draw(1, 5, D))[0].axes == ("head", "token")


@pytest.mark.parametrize("setting", ["span", "ramp"])
def test_a_span_below_1_is_one_line(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["cost", "paper/table1", "--set", f"model.mixer={{kind: adaptive_span, {setting}: 0}}"]) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert setting in error


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_step_executes_its_price_and_forms_the_spans_of_heads_again(dynamic: bool) -> None:
    mixer, after = build(dynamic=dynamic), []
    state = mixer.start(1)
    for t in range(1, T + 3):
        x = draw(1, D, seed=t)
        with use(adaptive_span="reference"):
            executed = count(lambda x=x, state=state: after.append(mixer.step(x, state)))
        state, price = after[-1][1], mixer.cost(t, per="token")
        again = H if t > 1 and not dynamic else 0
        assert executed.mul == price.mul + again
        assert (executed.add, executed.div, executed.exp) == (price.add, price.div, price.exp)


def test_settings_are_priced_at_the_largest_spans_and_a_model_at_those_that_it_has_learned() -> None:
    config = DecoderConfig.model_validate({"vocab": 13, "dim": D, "depth": 3, "context": T, "ffn": 12, "mixer": MIXER})
    model, prices = Decoder(config), of_settings(config, T)
    assert model.cost(T).mul < prices["training"].mul
    with torch.no_grad():
        for block in model.blocks:
            block.mixer.get_parameter("extent").fill_(1.0)
    assert model.cost(T) == prices["training"]
