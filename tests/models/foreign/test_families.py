"""Random models that transformers itself saved, read without it: logits through a text, through pieces and tokens.

Norms, angles and scans that a peer rounds to float32 are computed in float64 there, so that 1e-9 can be asked.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
from seqloom.models.foreign.families import FAMILIES  # noqa: E402
from seqloom.models.foreign.load import load  # noqa: E402
from seqloom.models.foreign.save import save  # noqa: E402
from seqloom.runs.family import family_of  # noqa: E402
from seqloom.runs.layout import Run  # noqa: E402
from tests.models.foreign import test_fla, test_pickled  # noqa: E402
from tests.models.foreign.reading import by_pieces  # noqa: E402

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
VOCAB, T = 31, 14
COMMON = {"vocab_size": VOCAB, "hidden_size": 16, "num_hidden_layers": 2, "bos_token_id": 0, "eos_token_id": 0}
HEADS = {"num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 32}
LLAMA = {**COMMON, **HEADS, "num_key_value_heads": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", LLAMA),
    "llama, tied, biases, base 500,000": (
        "LlamaConfig",
        {**LLAMA, "tie_word_embeddings": True, "attention_bias": True, "rms_norm_eps": 1e-5}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    ),
    "llama, stretched as Llama 3.1": (
        "LlamaConfig",
        {**LLAMA, "head_dim": 16}
        | {
            "rope_parameters": {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0}
            | {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
        },
    ),
    "llama, stretched evenly": (
        "LlamaConfig",
        {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}},
    ),
    "mistral": ("MistralConfig", {**LLAMA, "sliding_window": 5, "head_dim": 6}),
    "mistral without a window": ("MistralConfig", {**LLAMA, "sliding_window": None}),
    "qwen2": ("Qwen2Config", LLAMA),
    "qwen3": ("Qwen3Config", {**LLAMA, "head_dim": 8, "rms_norm_eps": 1e-6}),
    "qwen2, windows in the later layers": (
        "Qwen2Config",
        {**LLAMA, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "olmo2": ("Olmo2Config", {**LLAMA, "rms_norm_eps": 1e-4}),
    "gemma": ("GemmaConfig", {**LLAMA, "head_dim": 6, "pad_token_id": 0}),
    "gemma2": (
        "Gemma2Config",
        {**LLAMA, "num_hidden_layers": 3, "head_dim": 6, "sliding_window": 5, "query_pre_attn_scalar": 7}
        | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "pad_token_id": 0},
    ),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
        | {"bos_token_id": 0, "eos_token_id": 0, "layer_norm_epsilon": 1e-3},
    ),
    "gpt_neox": ("GPTNeoXConfig", {**COMMON, **HEADS, "rotary_pct": 0.5}),
    "gpt_neox, serial": (
        "GPTNeoXConfig",
        {**COMMON, **HEADS, "rotary_pct": 0.5, "use_parallel_residual": False, "hidden_act": "gelu_new"},
    ),
    "mamba": ("MambaConfig", {**COMMON, "state_size": 5, "conv_kernel": 3}),
    "mamba2": (
        "Mamba2Config",
        {**COMMON, "num_heads": 4, "head_dim": 8, "n_groups": 2, "state_size": 5, "chunk_size": 4}
        | {"tie_word_embeddings": True, "layer_norm_epsilon": 1e-3},
    ),
    "qwen3_next": (
        "Qwen3NextConfig",
        {**LLAMA, "num_hidden_layers": 4, "head_dim": 8, "num_experts": 0, "linear_num_key_heads": 2}
        | {"linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 5, "rms_norm_eps": 1e-4},
    ),
    "rwkv": (
        "RwkvConfig",
        {**COMMON, "num_hidden_layers": 3, "context_length": 32, "attention_hidden_size": 16, "rescale_every": 0},
    ),
    "recurrent_gemma": (
        "RecurrentGemmaConfig",
        {**COMMON, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48}
        | {"lru_width": 20, "attention_window_size": 5, "logits_soft_cap": 3.0, "pad_token_id": 0},
    ),
    "olmo_hybrid": (
        "OlmoHybridConfig",
        {**LLAMA, "num_hidden_layers": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 3, "rms_norm_eps": 1e-4}
        | {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "pad_token_id": 0}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
    ),
    "olmo_hybrid without positions": (
        "OlmoHybridConfig",
        {**LLAMA, "layer_types": ["full_attention", "linear_attention"], "pad_token_id": 0}
        | {"linear_value_head_dim": 3},  # as wide as keys: transformers cuts the convolution into equal parts
    ),
    "bamba": (
        "BambaConfig",
        {**LLAMA, "num_hidden_layers": 3, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_n_groups": 2}
        | {"mamba_d_state": 5, "mamba_chunk_size": 4, "rms_norm_eps": 1e-4},
    ),
}
ROUNDING = (
    *("bamba", "gemma", "gemma2", "llama", "mamba", "mamba2"),
    *("mistral", "olmo2", "olmo_hybrid", "qwen2", "qwen3", "qwen3_next", "recurrent_gemma", "rwkv"),
)


class Widened:
    """torch, whose float32 is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@pytest.fixture
def widened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ROUNDING:
        monkeypatch.setattr(importlib.import_module(f"transformers.models.{name}.modeling_{name}"), "torch", Widened())
    monkeypatch.setattr("transformers.modeling_rope_utils.torch", Widened())
    gemma = importlib.import_module("transformers.models.recurrent_gemma.modeling_recurrent_gemma")
    monkeypatch.setattr(gemma.RecurrentGemmaRglru._rnn_scan, "__defaults__", (torch.float64,))  # of its sums
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def peer(name: str) -> Any:
    """A model of transformers with weights that matter, in float64."""
    kind, settings = MODELS[name]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**settings)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def test_every_family_is_tried() -> None:
    tried = {name.partition(",")[0].partition(" ")[0] for name in (*MODELS, *test_fla.RECORDED)}
    assert tried | test_pickled.FAMILIES | {"bert"} == FAMILIES.keys() - {"seqloom"}


@pytest.mark.usefixtures("widened")
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_peers(name: str, tmp_path: Path) -> None:
    theirs = peer(name)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB" if name == "llama" else "1GB")
    model = load(tmp_path)
    assert model.dtype == torch.float64
    ids = torch.randint(0, VOCAB, (2, T), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(ids, use_cache=False).logits
        torch.testing.assert_close(model(ids), expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(by_pieces(model, ids), expected, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("widened")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_written_back_as_its_family(name: str, tmp_path: Path) -> None:
    theirs = peer(name)
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "back").mkdir()
    family = theirs.config.model_type
    model = load(tmp_path / "theirs")
    config = None if FAMILIES[family].write else json.loads((tmp_path / "theirs" / "config.json").read_text())
    save(model, tmp_path / "back", family, config)
    saved, back = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "back"))
    if family == "olmo_hybrid":  # transformers saves these under another name than it was given
        back = {
            name
            if name in saved
            else name.replace("post_attention", "feedforward").replace("ward_layernorm", "ward_layer_norm"): tensor
            for name, tensor in back.items()
        }
    assert back.keys() == saved.keys()
    for key, value in saved.items():
        torch.testing.assert_close(back[key], value, rtol=0, atol=1e-15)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float64)
    ids = torch.randint(0, VOCAB, (2, T), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, theirs(ids).logits, rtol=0, atol=1e-9)


def test_what_seqloom_exported_is_read(tmp_path: Path) -> None:
    import seqloom.hf

    model = seqloom.decoder("he", vocab=VOCAB, dim=16, depth=2, context=16)
    seqloom.hf.wrap(model).save_pretrained(tmp_path)
    ids = torch.randint(0, VOCAB, (2, T))
    torch.testing.assert_close(seqloom.load(tmp_path)(ids), model.eval()(ids), rtol=0, atol=0)


@pytest.mark.parametrize("old", [False, True])
def test_bert(old: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(**COMMON, **HEADS, layer_norm_eps=1e-5, attn_implementation="eager")
    theirs = transformers.BertForMaskedLM(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path)
    if old:
        weights = load_file(tmp_path / "model.safetensors")
        renamed = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in weights.items()
        }
        save_file({**renamed, "bert.pooler.dense.bias": torch.ones(16)}, tmp_path / "model.safetensors")
    model = load(tmp_path)
    ids = torch.randint(0, VOCAB, (2, T))
    keep = torch.ones(2, T, dtype=torch.bool)
    keep[1, 9:] = False
    with torch.no_grad():
        expected = theirs(ids, attention_mask=keep.long()).logits
        torch.testing.assert_close(model(ids, keep)[keep], expected[keep], rtol=0, atol=1e-9)
    assert family_of(Run(tmp_path), model) is None


def test_half_precision_stays_as_it_is(tmp_path: Path) -> None:
    peer("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    model = seqloom.load(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert "".join(map(str, model(torch.tensor([[1, 2]])).shape)) == f"12{VOCAB}"


def test_a_model_that_was_read_trains(tmp_path: Path) -> None:
    peer("gpt2").float().save_pretrained(tmp_path)
    model = seqloom.load(tmp_path).train()
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
