"""A folder of transformers in the place of a run: each command that reads one, and trainings that begin with it."""

import json
from pathlib import Path

import pytest

import seqloom as library
from seqloom.data.tokenizer import Tokenizer
from seqloom.models.kinds import model_config
from seqloom.runs.family import export_family
from seqloom.runs.layout import find_run
from tests.cli.conftest import Seqloom
from tests.cli.test_bad_input import refused

TEXT = "stories:9"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a tokenizer of bytes, as transformers has it."""
    folder = tmp_path_factory.mktemp("foreign")
    model = library.decoder(
        "attention",
        **{"vocab": 257, "dim": 16, "depth": 2, "context": 32, "heads": 4, "kv_heads": 2, "position": "rotary"},  # type: ignore[arg-type]  # by name
        **{"norm": "rms", "ffn": {"width": 24, "activation": "silu", "gated": True, "bias": False}},  # type: ignore[arg-type]  # by name
        **{"embed_scale": False, "head_bias": False, "std": 0.3},  # type: ignore[arg-type]  # by name
    )
    run = library.save(model, folder / "run", tokenizer=Tokenizer.of_bytes())
    return export_family(find_run(run), library.load(run), folder / "llama", "llama")


@pytest.mark.slow
def test_it_writes_and_is_scored(seqloom: Seqloom, llama: Path) -> None:
    assert seqloom("generate", llama, "Once", "--max-tokens", 5).code == 0
    early = seqloom("generate", llama, "Once", "--max-tokens", 5, "--exit", 1)
    assert early.code == 0, early.err
    score = json.loads(seqloom("evaluate", llama, "--data", TEXT, "--json").out)
    assert score["held_out"] > 0
    assert seqloom("runs", llama).code == 0


@pytest.mark.slow
def test_it_has_neighbors(seqloom: Seqloom, llama: Path, tmp_path: Path) -> None:
    assert seqloom("knn", "build", llama, "--data", TEXT, "--out", tmp_path / "store").code == 0
    mixed = json.loads(seqloom("evaluate", llama, "--data", TEXT, "--json", "--knn", tmp_path / "store").out)
    plain = json.loads(seqloom("evaluate", llama, "--data", TEXT, "--json").out)
    assert mixed["held_out"] < plain["held_out"]


@pytest.mark.slow
def test_a_training_begins_with_it(seqloom: Seqloom, llama: Path, tmp_path: Path) -> None:
    common = ("train", "--from", llama, "--data", TEXT, "--set", "training.batches=2", "--set", "data.held_out=0.3")
    answer = seqloom(*common, "--out", tmp_path / "whole")
    assert answer.code == 0, answer.err
    assert "tensors are those of" in answer.err
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["model"]["mixer"]["heads"] == 4
    memorizing = "model.mixer=[{kind: attention, heads: 4, kv_heads: 2},{kind: memorizing, heads: 4}]"
    answer = seqloom(*common, "--set", memorizing, "--out", tmp_path / "memorizing")
    assert answer.code == 0, answer.err
    assert "new here: layers.1.mixer" in answer.err
    assert seqloom("export", "hf", tmp_path / "whole", tmp_path / "back").out.rstrip().endswith("a model of type llama")
    assert model_config(find_run(tmp_path / "back").settings["model"]).kind == "decoder"


def test_what_is_not_read_is_one_line(seqloom: Seqloom, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt_oss", "num_local_experts": 4}')
    refused(seqloom("generate", tmp_path, "Once"), "gpt_oss: mixtures of experts are not built")
    (tmp_path / "config.json").write_text('{"model_type": "opt"}')
    refused(seqloom("evaluate", tmp_path, "--data", TEXT), "models of type 'opt' are not read; llama, ")
    refused(seqloom("train", "--from", tmp_path, "--data", TEXT, "--out", tmp_path / "out"), "are not read")
    assert not (tmp_path / "out").exists()
