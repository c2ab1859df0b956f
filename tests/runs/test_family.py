"""`seqloom export hf --as FAMILY`, without transformers: what a run becomes, what a folder keeps, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.cli.work.export import export_model
from seqloom.data.tokenizer import Tokenizer
from seqloom.runs.family import family_of
from seqloom.runs.layout import Run

LLAMA: dict[str, Any] = {
    **{"vocab": 257, "dim": 16, "depth": 2, "context": 32, "heads": 4, "kv_heads": 2, "position": "rotary"},
    **{"norm": "rms", "ffn": {"width": 24, "activation": "silu", "gated": True, "bias": False}},
    **{"embed_scale": False, "head_bias": False},
}
IDS = torch.tensor([[1, 2, 3, 4]])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose model is a Llama, with a tokenizer of bytes."""
    model = seqloom.decoder("attention", **LLAMA)
    return seqloom.save(model, tmp_path / "run", tokenizer=Tokenizer.of_bytes())


def exported(run: Path, out: Path, family: str | None = None) -> dict[str, Any]:
    export_model(run, out, None, family)
    content = json.loads((out / "config.json").read_text())
    assert isinstance(content, dict)
    return content


def test_a_run_becomes_a_llama(run: Path, tmp_path: Path) -> None:
    content = exported(run, tmp_path / "out", "llama")
    assert content["model_type"] == "llama"
    assert content["eos_token_id"] == Tokenizer.of_bytes().eos
    read, own = seqloom.load(tmp_path / "out"), seqloom.load(run)
    assert read.tokenizer.json == own.tokenizer.json
    torch.testing.assert_close(read(IDS), own(IDS), rtol=0, atol=0)


def test_a_folder_keeps_its_settings_and_ids(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "out", "llama")
    path = tmp_path / "out" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": [5, 7], "bos_token_id": 3}))
    (tmp_path / "out" / "generation_config.json").write_text('{"top_p": 0.5}')
    content = exported(tmp_path / "out", tmp_path / "again")
    assert (content["eos_token_id"], content["bos_token_id"]) == ([5, 7], 3)
    assert (tmp_path / "again" / "generation_config.json").read_text() == '{"top_p": 0.5}'
    tokenizers = [(tmp_path / name / "tokenizer.json").read_text() for name in ("out", "again")]
    assert tokenizers[0] == tokenizers[1]


def test_a_llama_is_written_as_another_family_only_where_it_is_one(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "llama", "llama")
    assert exported(tmp_path / "llama", tmp_path / "mistral", "mistral")["model_type"] == "mistral"
    for family, message in {
        "qwen3": "none of qwen3: its mixer is .*qk_norm",
        "gemma2": "none of gemma2: its embed_scale is False",
        "gpt2": "none of gpt2: config.json: activation_function='silu' is not built",
        "mamba": "mamba has the mixer mamba, and the model attention",
        "opt": "are not written as 'opt'; choose from llama, ",
    }.items():
        with pytest.raises(ValueError, match=message):
            exported(run, tmp_path / "refused", family)
        assert not (tmp_path / "refused").exists()
    with pytest.raises(ValueError, match="is there already"):
        exported(run, tmp_path / "llama", "llama")


def test_what_is_no_longer_of_its_family_is_written_as_ours(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "llama", "llama")
    model = seqloom.load(tmp_path / "llama")
    assert family_of(Run(tmp_path / "llama"), model) == "llama"
    assert family_of(Run(tmp_path / "llama"), seqloom.swap(model, {1: "gated_delta"})) is None
    assert family_of(Run(run), model) is None
