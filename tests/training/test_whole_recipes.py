"""The recipes at tiny sizes: trained, loaded, priced, used to generate; a tied model resumes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.training.recipes import recipe
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome, train
from tests.training.running import SMALL, digests, newest, rows, tiny

SIZES = ("model.dim=16", "model.depth=2", "model.context=16", "data.vocab=280", "training.batch=4")
OWN = {
    "llama/small": ("model.ffn=20",),
    "gpt2/small": ("model.dropout=0.1",),
    "gated_delta/small": ("model.dim=32", "model.depth=4"),  # a quarter of a head's channels is two
    "griffin/small": ("model.depth=3",),
    "kimi/small": ("model.dim=32", "model.depth=4"),  # latent attention's rank is 32
    "xlstm/small": ("model.depth=8",),
    "transformer_xl/small": ("model.mixer.memory=9",),
    "compressive/small": ("model.mixer.memory=4", "model.mixer.compressed=3", "model.mixer.rate=2"),
}
NAMES = (
    *("gpt2/small", "llama/small", "rwkv4/small", "mamba/small", "retnet/small"),
    *("gla/small", "gated_delta/small", "mamba2/small", "rwkv7/small", "griffin/small"),
    *("kimi/small", "xlstm/small", "transformer_xl/small", "compressive/small", "universal/small"),
)


def changes(name: str, batches: int) -> list[str]:
    small = [each for each in SMALL if not each.startswith("training.batches")]
    return [*small, *SIZES, *OWN.get(name, ()), "training.schedule.warmup=2", f"training.batches={batches}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_trained_priced_and_written_with(name: str, tmp_path: Path) -> None:
    config = resolve(name, changes(name, 6))
    assert config.training.schedule.kind == recipe(name)["training"]["schedule"]["kind"] == "cosine"
    outcome = train(config, tmp_path / "whole")
    result = [row["loss"] for row in rows(tmp_path / "whole") if "loss" in row]
    assert result[-1] < result[0]
    model = seqloom.load(outcome.run.folder)
    assert model.config == config.model.model_copy(update={"vocab": model.config.vocab})
    assert len(list(seqloom.generate(model, [3, 5, 7], mode="stream", max_tokens=13, seed=1))) == 13
    assert model.cost(16).params == sum(p.numel() for p in model.parameters())
    text = torch.arange(12)[None]
    with torch.no_grad():
        first, state = model.extend(text[:, :7], model.start(1))
        second, _ = model.extend(text[:, 7:], state)
        torch.testing.assert_close(torch.cat([first, second], 1), model(text), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_tied_model_resumes_bit_for_bit(whole: Callable[..., Outcome], out: Path) -> None:
    """The shared matrix and its averages are saved once."""
    tied = ("model.tie=true", "model.sublayers=parallel", "model.glu=true", "model.scaled_init=true")
    tiny(out, *tied, "training.batches=5")
    assert "head.weight" not in newest(out).tensors["model"]
    assert not [name for name in newest(out).tensors["optimizer"] if name.startswith("head.weight")]
    tiny(out, *tied)
    assert digests(out) == digests(whole(*tied).run.folder)
