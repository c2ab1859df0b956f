"""Folders of transformers that cannot be read: one line, which says what is wrong."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import seqloom
from seqloom.models.foreign.load import load

LLAMA: dict[str, Any] = {
    **{"model_type": "llama", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 8, "max_position_embeddings": 16, "rms_norm_eps": 1e-5},
}
SHAPES = {
    "model.embed_tokens.weight": (11, 8),
    "model.norm.weight": (8,),
    "lm_head.weight": (11, 8),
    "model.layers.0.input_layernorm.weight": (8,),
    "model.layers.0.post_attention_layernorm.weight": (8,),
    **{f"model.layers.0.self_attn.{letter}_proj.weight": (8, 8) for letter in "qkvo"},
    **{f"model.layers.0.mlp.{name}_proj.weight": (8, 8) for name in ("gate", "up", "down")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A llama of one layer that can be read."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    save_file({name: torch.ones(shape) for name, shape in SHAPES.items()}, tmp_path / "model.safetensors")
    load(tmp_path)
    return tmp_path


def refused(folder: Path, message: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind, match=message) as caught:
        seqloom.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gemma3n"}, "gemma3n: shared keys are not built"),
        ({"model_type": "opt"}, "models of type 'opt' are not read; llama, "),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 8.0}}, "rotary positions of type 'yarn' are not built"),
        ({"rope_scaling": {"rope_type": "linear"}}, "lacks 'factor'"),
        ({"hidden_act": "relu"}, "hidden_act='relu' is not built; 'silu' or "),
        ({"mlp_bias": True}, "mlp_bias=True is not built"),
        ({"attention_sink_size": 4}, "attention_sink_size=4 is not built"),
        ({"quantization_config": {"bits": 4}}, "quantized weights are not read"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2}, "heads 3 are not divisible by kv_heads 2"),
        ({"hidden_size": "8"}, "hidden_size must be of type int, not '8'"),
        ({"hidden_size": 2**40}, "hidden_size must lie in 1"),
        ({"vocab_size": None}, "lacks vocab_size"),
        ({"hidden_size": 2**19, "intermediate_size": 2**19}, "should be"),
        ({"vocab_size": 12}, r"embed_tokens.weight is \(11, 8\) and should be \(12, 8\)"),
    ],
)
def test_settings_that_are_not_built(folder: Path, changes: dict[str, Any], message: str) -> None:
    (folder / "config.json").write_text(json.dumps({**LLAMA, **changes}))
    refused(folder, message)


def test_a_file_that_is_cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for size in (0, 7, 40, len(data) - 1):
        path.write_bytes(data[:size])
        refused(folder, "is damaged")


def test_tensors_that_overlap(folder: Path) -> None:
    header = {name: {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]} for name in ("a", "b")}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(32))
    refused(folder, "is damaged")


def test_a_pickle_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "has no weights", FileNotFoundError)
    torch.save({"a": torch.ones(1)}, folder / "pytorch_model.bin")
    refused(folder, "is a pickle, which may run code")


def test_names_that_are_missing_or_unknown(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({name: tensor for name, tensor in weights.items() if "q_proj" not in name}, path)
    refused(folder, "the weights lack model.layers.0.self_attn.q_proj.weight")
    save_file({**weights, "model.layers.0.self_attn.q_norm.weight": torch.ones(4)}, path)
    refused(folder, "the weights have model.layers.0.self_attn.q_norm.weight, which this model does not")


def test_an_index_that_leads_out_of_the_folder(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    refused(folder, "elsewhere")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    refused(folder, "gone.safetensors is missing", FileNotFoundError)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weights": {}}))
    refused(folder, "has no weight_map")


def test_the_same_tensor_in_two_files(folder: Path) -> None:
    save_file({"model.norm.weight": torch.ones(8)}, folder / "more.safetensors")
    names = {"model.norm.weight": "more.safetensors", "lm_head.weight": "model.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    refused(folder, "which another file holds too")


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    (folder / "modeling.py").write_text("raise SystemExit('ran')")
    auto_map = {"AutoModelForCausalLM": "modeling.Model"}
    (folder / "config.json").write_text(json.dumps({**LLAMA, "auto_map": auto_map}))
    assert seqloom.load(folder).config.dim == 8  # type: ignore[attr-defined]  # a decoder has it


def test_quantized_numbers_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"].to(torch.int8)
    save_file(weights, folder / "model.safetensors")
    refused(folder, "is stored as I8")


def test_steps_belong_to_runs(folder: Path) -> None:
    with pytest.raises(ValueError, match="which has no steps"):
        seqloom.load(folder, step=3)
