"""Adapters of low rank change every verb of a model alike, are saved, loaded, merged, and are all that is trained."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("peft")

import seqloom
from seqloom.cli.work.fine_tuning import adapt, changes_for
from seqloom.core.model import Model
from seqloom.data.tokenizer import Tokenizer
from seqloom.hf.lora import add_adapters, load_adapters, merge_adapters, save_adapters
from seqloom.runs.family import export_family, family_of
from seqloom.runs.layout import find_run
from seqloom.training.settings import resolve
from seqloom.training.train import train
from tests.models.foreign.reading import by_pieces

IDS = torch.randint(17, (2, 9), generator=torch.Generator().manual_seed(0))
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"position": "rotary", "heads": 4, "kv_heads": 2},
    "gated_delta": {"position": "none", "heads": 2},
    "rwkv7": {"position": "none", "heads": 2, "channel": "channel_mix7"},
    "mamba2": {"position": "none", "head_width": 8},
    "gru": {"position": "none"},
    "he": {},
}


def plain(kind: str) -> Model:
    torch.manual_seed(0)
    return seqloom.decoder(kind, vocab=17, dim=16, depth=2, context=32, **MODELS[kind]).double().eval()


def adapted(kind: str) -> Model:
    model = add_adapters(plain(kind), rank=3, alpha=6.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.3)
    return model


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", MODELS)
def test_an_adapter_changes_every_verb(kind: str) -> None:
    close(add_adapters(plain(kind), rank=3)(IDS), plain(kind)(IDS))
    model = adapted(kind)
    expected = model(IDS)
    assert float((expected - plain(kind)(IDS)).detach().abs().max()) > 1e-3
    close(by_pieces(model, IDS, (4, 2)), expected)
    assert model.cost(9).params == sum(parameter.numel() for parameter in model.parameters())
    expected.logsumexp(-1).sum().backward()
    assert all((parameter.grad is not None) == (".lora_" in name) for name, parameter in model.named_parameters())


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_saved_loaded_and_merged(kind: str, tmp_path: Path) -> None:
    model = adapted(kind)
    expected = model(IDS)
    save_adapters(model, tmp_path)
    close(load_adapters(plain(kind), tmp_path)(IDS), expected)
    merged = merge_adapters(model)
    close(merged(IDS), expected)
    assert merged.state_dict().keys() == plain(kind).state_dict().keys()
    assert all(parameter.requires_grad for parameter in merged.parameters())


@pytest.mark.slow
@pytest.mark.graph
def test_it_changes_a_compiled_step() -> None:
    model = adapted("attention").requires_grad_(False)
    state = model.start(2, capacity=4)
    model.step(IDS[:, 0], state)  # counts the sublayers, once
    step = torch.compile(model.step, fullgraph=True, backend="eager")
    close(step(IDS[:, 0], state)[0], model(IDS[:, :1])[:, 0])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = adapted("attention")
    save_adapters(model, tmp_path)
    with pytest.raises(ValueError, match="has adapters already"):
        add_adapters(model)
    with pytest.raises(ValueError, match=r"does not fit the model|target"):
        load_adapters(plain("gated_delta"), tmp_path)
    with pytest.raises(ValueError, match="no adapters to be saved"):
        save_adapters(plain("he"), tmp_path)
    with pytest.raises(FileNotFoundError, match=r"adapter_config\.json is missing"):
        load_adapters(plain("he"), tmp_path / "nowhere")


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A folder of transformers, whose embedding has more rows than its tokenizer has tokens."""
    model = seqloom.decoder(
        "attention",
        **{"vocab": 264, "dim": 16, "depth": 2, "context": 32, "heads": 4, "kv_heads": 2, "position": "rotary"},
        **{"norm": "rms", "ffn": {"width": 24, "activation": "silu", "gated": True, "bias": False}},
        **{"embed_scale": False, "head_bias": False, "std": 0.3},
    )
    run = seqloom.save(model, tmp_path / "run", tokenizer=Tokenizer.of_bytes())
    return export_family(find_run(run), seqloom.load(run), tmp_path / "llama", "llama")


def test_a_folder_is_fine_tuned_and_written_back(llama: Path, tmp_path: Path) -> None:
    changes = [*changes_for(str(llama)), f"training.begin={llama}", "training.lora.rank=2", "training.lora.alpha=8"]
    changes += ["training.batches=4", "training.save_every=2", "data.held_out=0.2"]
    config = resolve("llama/small", changes, source="stories:40:0")
    said: list[str] = []
    out = tmp_path / "tuned"
    trained = train(config, out, say=said.append, adapt=adapt).model
    assert any("without 7 rows of tokens that the tokenizer has not" in line for line in said)
    ids = torch.tensor([[72, 105, 33, 1]])
    loaded, before = seqloom.load(out), seqloom.load(llama)
    torch.testing.assert_close(loaded(ids), trained(ids), rtol=0, atol=1e-5)
    weights, first = loaded.state_dict(), before.state_dict()
    assert torch.equal(weights["token.weight"], first["token.weight"][:257])
    assert not torch.equal(weights["layers.0.mixer.w_qkv.weight"], first["layers.0.mixer.w_qkv.weight"])
    assert family_of(find_run(out), loaded) == "llama"
    export_family(find_run(out), loaded, tmp_path / "back", "llama")
    torch.testing.assert_close(seqloom.load(tmp_path / "back")(ids), loaded(ids), rtol=0, atol=0)


@pytest.mark.slow
def test_it_resumes_bit_for_bit(llama: Path, tmp_path: Path) -> None:
    changes = [*changes_for(str(llama)), f"training.begin={llama}", "training.lora.rank=2", "training.batches=4"]
    changes += ["training.schedule.kind=constant", "data.held_out=0.2"]
    config = resolve("llama/small", changes, source="stories:40:0")
    half = resolve("llama/small", [*changes, "training.batches=2"], source="stories:40:0")
    whole = train(config, tmp_path / "whole", say=str, adapt=adapt).model.state_dict()
    train(half, tmp_path / "halves", say=str, adapt=adapt)
    halves = train(config, tmp_path / "halves", say=str, adapt=adapt).model.state_dict()
    assert all(torch.equal(halves[name], tensor) for name, tensor in whole.items())
    with pytest.raises(ValueError, match=r"training.lora is for `seqloom train`"):
        train(config, tmp_path / "other", say=str)
    assert not (tmp_path / "other").exists()
