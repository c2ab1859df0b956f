"""Llama and its relatives: RMS norms, rotary positions, grouped queries, SwiGLU, no biases.

    llama · mistral (a window) · qwen2 (biases of q, k, v; windows) · qwen3 (norms of q and k per head)

SmolLM, SmolLM2 and TinyLlama are `llama`.

Source: transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and their configs.
"""

from typing import Any

from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import Part, Same, Stacked, of_layers
from seqloom.models.foreign.rope import rotary
from seqloom.models.foreign.values import Values


def llama(values: Values) -> Foreign:
    """A model of type llama."""
    biases = "all" if values.get("attention_bias", bool, False) else "none"
    values.require("mlp_bias", False, default=False)
    return _read(values, {"bias": biases})


def mistral(values: Values) -> Foreign:
    """A model of type mistral; its window is that of all layers."""
    return _read(values, {"window": _window(values.optional("sliding_window"))})


def qwen2(values: Values) -> Foreign:
    """A model of type qwen2, without windows."""
    _without_windows(values)
    return _read(values, {"bias": "qkv"})


def qwen3(values: Values) -> Foreign:
    """A model of type qwen3, without windows."""
    _without_windows(values)
    values.require("rms_norm_eps", 1e-6, default=1e-6)  # that of our norms of queries and keys
    biases = "all" if values.get("attention_bias", bool, False) else "none"
    return _read(values, {"bias": biases, "qk_norm": "heads"})


def _window(given: Any) -> dict[str, Any] | int | None:
    return given if given is None else int(given)


def _without_windows(values: Values) -> None:
    """Raises ValueError where some layers have a window: those are not built."""
    values.require("use_sliding_window", False, default=False)
    values.ignore("sliding_window")
    kinds = values.optional("layer_types") or []
    if set(kinds) - {"full_attention"}:
        raise ValueError(f"layer_types {sorted(set(kinds))} are not built: only full_attention is")


def _read(values: Values, attention: dict[str, Any]) -> Foreign:
    """The model, with settings of its attention that differ from Llama's."""
    dim, depth = values.size("hidden_size"), values.size("num_hidden_layers", most=4096)
    heads = values.size("num_attention_heads")
    groups = values.size("num_key_value_heads", heads)
    width = values.size("head_dim", dim // heads)
    values.require("hidden_act", "silu", "swish", default="silu")
    kinds = values.optional("layer_types") or ["full_attention"]
    if set(kinds) - {"full_attention", "sliding_attention"} or len(set(kinds)) > 1:
        raise ValueError(f"layer_types {sorted(set(kinds))} are not built: all layers must be of one kind")
    mixer: dict[str, Any] = {"kind": "attention", "heads": heads, "kv_heads": groups, **attention}
    if width * heads != dim:
        mixer["width"] = width
    tied = values.get("tie_word_embeddings", bool, False)
    settings = {
        "kind": "decoder",
        "vocab": values.size("vocab_size", most=2**24),
        "dim": dim,
        "depth": depth,
        "context": values.size("max_position_embeddings", most=2**24),
        "ffn": values.size("intermediate_size"),
        "dropout": 0.0,
        "position": rotary(values),
        "norm": "rms",
        "norm_eps": values.get("rms_norm_eps", float, 1e-6),
        "activation": "silu",
        "glu": True,
        "ffn_bias": False,
        "embed_scale": False,
        "head_bias": False,
        "tie": tied,
        "mixer": {name: value for name, value in mixer.items() if value is not None},
    }
    rows = (heads * width, groups * width, groups * width)
    top: list[Part] = [Same("token.weight", "model.embed_tokens.weight"), Same("norm.weight", "model.norm.weight")]
    if not tied:
        top.append(Same("head.weight", "lm_head.weight"))
    return Foreign(
        settings,
        top + of_layers(_layer(attention, rows), "layers.{}.", "model.layers.{}.", depth),
        without_weights=r".*rotary_emb\.inv_freq" + (r"|lm_head\.weight" if tied else ""),
    )


def _layer(attention: dict[str, Any], rows: tuple[int, int, int]) -> list[Part]:
    """The table of a layer."""
    biases = attention.get("bias", "none")
    parts: list[Part] = [
        Same("norm_1.weight", "input_layernorm.weight"),
        Same("norm_2.weight", "post_attention_layernorm.weight"),
        Stacked("mixer.w_qkv.weight", tuple(f"self_attn.{letter}_proj.weight" for letter in "qkv"), rows),
        Same("mixer.w_out.weight", "self_attn.o_proj.weight"),
        Same("ffn.w_gate.weight", "mlp.gate_proj.weight"),
        Same("ffn.w_1.weight", "mlp.up_proj.weight"),
        Same("ffn.w_2.weight", "mlp.down_proj.weight"),
    ]
    if biases != "none":
        parts.append(Stacked("mixer.w_qkv.bias", tuple(f"self_attn.{letter}_proj.bias" for letter in "qkv"), rows))
    if biases == "all":
        parts.append(Same("mixer.w_out.bias", "self_attn.o_proj.bias"))
    if attention.get("qk_norm") == "heads":
        parts += [Same(f"mixer.norm_{letter}.weight", f"self_attn.{letter}_norm.weight") for letter in "qk"]
    return parts
