"""Small random models of transformers of every family whose attention can be replaced, in float64."""

from typing import Any

import torch
import transformers

DIM = 16
DEPTH = 3
VOCAB = 31
CONTEXT = 32
IDS = torch.tensor([[3, 7, 1, 9, 4, 8, 2], [5, 2, 2, 6, 30, 1, 9]])
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": DIM,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
    "eos_token_id": None,
    "bos_token_id": None,
}
START = {"decoder_start_token_id": 0}
GROUPS = {"num_key_value_heads": 2}
CAUSAL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", GROUPS),
    "mistral": ("MistralConfig", "MistralForCausalLM", {**GROUPS, "sliding_window": 4}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPS),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**GROUPS, "head_dim": 6}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {"rotary_pct": 0.5, "num_attention_heads": 2}),
}
WHOLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", {}),
    "vit": ("ViTConfig", "ViTForImageClassification", {"image_size": 8, "patch_size": 4}),
    "t5": ("T5Config", "T5ForConditionalGeneration", {"d_ff": 24, "d_kv": 4, "num_decoder_layers": DEPTH, **START}),
}


def model_of(family: str) -> Any:
    """The model, whose weights are far enough from their first values that every layer matters."""
    config_name, class_name, settings = {**CAUSAL, **WHOLE}[family]
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**{**SIZES, **settings})
    model = getattr(transformers, class_name)(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def inputs_of(family: str) -> dict[str, torch.Tensor]:
    """What a model of the family reads."""
    if family == "vit":
        return {
            "pixel_values": torch.randn(2, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        }
    inputs = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    return {**inputs, "decoder_input_ids": IDS[:, :4]} if family == "t5" else inputs


def write(model: Any, ids: torch.Tensor, count: int, **settings: Any) -> torch.Tensor:
    """What `generate` writes."""
    settings.setdefault("attention_mask", torch.ones_like(ids))
    settings.setdefault("do_sample", False)
    written: torch.Tensor = model.generate(ids, max_new_tokens=count, **settings)
    return written
