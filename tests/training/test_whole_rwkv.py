"""Whole RWKV-4 from settings alone: trained, stopped, resumed, used to generate in both modes, at any length."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.core.state import nbytes
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome
from tests.training.running import apart, at_row, mixer, same, tiny

RWKV = (mixer("rwkv"), "model.channel=channel_mix", "model.embed_norm=true", "model.position=none", "model.depth=2")


@pytest.mark.slow
def test_whole_rwkv_goes_on_bit_for_bit(whole: Callable[..., Outcome], out: Path) -> None:
    assert apart(out, *RWKV, arm=at_row(4, signal.SIGTERM)) == 128 + signal.SIGTERM
    assert tiny(out, *RWKV).step == 9
    same(out, whole(*RWKV).run.folder)


@pytest.mark.slow
def test_it_learns_writes_and_is_priced(whole: Callable[..., Outcome]) -> None:
    folder = whole(*RWKV).run.folder
    model = seqloom.load(folder)
    assert model.config.ffn.kind == "channel_mix"
    assert [block.mixer.layer for block in model.blocks] == [0, 1]
    begun = {
        name: float(p.detach().std()) for name, p in type(model)(model.config).named_parameters() if ".mu_" in name
    }
    assert any(float(p.detach().std()) != begun[name] for name, p in model.named_parameters() if name in begun)
    prompt = [3, 5, 7]
    for mode in ("slide", "stream"):
        written = list(seqloom.generate(model, prompt, mode=mode, max_tokens=60, seed=1))
        assert len(written) == 60
        assert all(0 <= id < model.config.vocab for id in written)
    with torch.no_grad():
        text = torch.arange(3 * model.config.context)[None] % model.config.vocab
        whole_text, state = model(text), model.start(1)
        for position in range(text.shape[1]):
            logits, state = model.step(text[:, position], state, reuse=True)
            torch.testing.assert_close(logits, whole_text[:, position], rtol=1e-3, atol=1e-4)
    price = model.cost(48, per="token")
    assert price.params == sum(p.numel() for p in model.parameters())
    assert price.state * 4 == nbytes(model.trim(state)), "as much after three contexts as after one token"


def test_a_wrong_name_is_one_line() -> None:
    wrong = r"model\.ffn: unknown kind 'channelmix' of a feed-forward network; did you mean 'channel_mix'"
    with pytest.raises(ValueError, match=wrong):
        resolve("tiny", ["model.channel=channelmix"])
    with pytest.raises(ValueError, match=r"unknown setting 'model\.chanel'"):
        resolve("tiny", ["model.chanel=ffn"])


def test_it_is_one_call() -> None:
    model = seqloom.decoder(
        "rwkv", vocab=9, dim=8, depth=2, context=4, position="none", channel="channel_mix", embed_norm=True
    )
    assert model.longest is None
    assert {type(block.ffn_sublayer).__name__ for block in model.blocks} == {"ChannelMix"}
    assert model.embed_norm is not None
