"""GPT-2 and GPT-NeoX (Pythia): layer norms and biases.

GPT-2 has a learned table of positions, GELU by tanh and a tied output; GPT-NeoX rotary positions on a share of the
channels of each head, and sublayers in parallel.

Source: transformers' GPT2LMHeadModel and GPTNeoXForCausalLM and their configs.
"""

from typing import Any

from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import ByHead, Part, Same, Turned, of_layers
from seqloom.models.foreign.rope import rotary
from seqloom.models.foreign.values import Values

GELU = {"gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}


def gpt2(values: Values) -> Foreign:
    """A model of type gpt2."""
    dim, depth, heads = values.size("n_embd"), values.size("n_layer", most=4096), values.size("n_head")
    activation = GELU[values.require("activation_function", *GELU, default="gelu_new")]
    values.require("scale_attn_weights", True, default=True)
    values.require("scale_attn_by_inverse_layer_idx", False, default=False)
    values.require("add_cross_attention", False, default=False)
    values.ignore("reorder_and_upcast_attn", "n_ctx")
    tied = values.get("tie_word_embeddings", bool, True)
    settings = {
        **_around(values, dim, depth, activation, tied),
        "context": values.size("n_positions", most=2**24),
        "ffn": values.size("n_inner", 4 * dim),
        "position": {"kind": "learned"},
        "norm_eps": values.get("layer_norm_epsilon", float, 1e-5),
        "mixer": {"kind": "attention", "heads": heads, "bias": "all"},
    }
    layer: list[Part] = [
        *_both(Same, "norm_1", "ln_1"),
        *_both(Same, "norm_2", "ln_2"),
        *_conv("mixer.w_qkv", "attn.c_attn"),
        *_conv("mixer.w_out", "attn.c_proj"),
        *_conv("ffn.w_1", "mlp.c_fc"),
        *_conv("ffn.w_2", "mlp.c_proj"),
    ]
    top: list[Part] = [
        Same("token.weight", "transformer.wte.weight"),
        Same("position.table.weight", "transformer.wpe.weight"),
        *_both(Same, "norm", "transformer.ln_f"),
    ]
    if not tied:
        top.append(Same("head.weight", "lm_head.weight"))
    masks = r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias"
    return Foreign(
        settings,
        top + of_layers(layer, "layers.{}.", "transformer.h.{}.", depth),
        without_weights=masks + (r"|lm_head\.weight" if tied else ""),
        prefix="transformer.",
    )


def gpt_neox(values: Values) -> Foreign:
    """A model of type gpt_neox."""
    dim, depth = values.size("hidden_size"), values.size("num_hidden_layers", most=4096)
    heads = values.size("num_attention_heads")
    activation = GELU[values.require("hidden_act", *GELU, default="gelu")]
    biases = values.get("attention_bias", bool, True)
    parallel = values.get("use_parallel_residual", bool, True)
    tied = values.get("tie_word_embeddings", bool, False)
    settings = {
        **_around(values, dim, depth, activation, tied),
        "context": values.size("max_position_embeddings", most=2**24),
        "ffn": values.size("intermediate_size"),
        "position": rotary(values, share=0.25),
        "norm_eps": values.get("layer_norm_eps", float, 1e-5),
        "sublayers": "parallel" if parallel else "serial",
        "mixer": {"kind": "attention", "heads": heads, "bias": "all" if biases else "none"},
    }
    names = ("weight", "bias") if biases else ("weight",)
    layer: list[Part] = [
        *_both(Same, "norm_1", "input_layernorm"),
        *_both(Same, "norm_2", "post_attention_layernorm"),
        *(ByHead(f"mixer.w_qkv.{name}", f"attention.query_key_value.{name}", heads) for name in names),
        *(Same(f"mixer.w_out.{name}", f"attention.dense.{name}") for name in names),
        *_both(Same, "ffn.w_1", "mlp.dense_h_to_4h"),
        *_both(Same, "ffn.w_2", "mlp.dense_4h_to_h"),
    ]
    top: list[Part] = [
        Same("token.weight", "gpt_neox.embed_in.weight"),
        *_both(Same, "norm", "gpt_neox.final_layer_norm"),
    ]
    if not tied:
        top.append(Same("head.weight", "embed_out.weight"))
    return Foreign(
        settings,
        top + of_layers(layer, "layers.{}.", "gpt_neox.layers.{}.", depth),
        without_weights=r"gpt_neox\.layers\.\d+\.attention\.(masked_bias|bias|rotary_emb\.inv_freq)",
    )


def _around(values: Values, dim: int, depth: int, activation: str, tied: bool) -> dict[str, Any]:
    """The settings that both have."""
    return {
        "kind": "decoder",
        "vocab": values.size("vocab_size", most=2**24),
        "dim": dim,
        "depth": depth,
        "dropout": 0.0,
        "norm": "layer",
        "activation": activation,
        "embed_scale": False,
        "head_bias": False,
        "tie": tied,
    }


def _both(kind: type[Same], ours: str, theirs: str) -> list[Part]:
    """The lines of a weight and a bias."""
    return [kind(f"{ours}.{name}", f"{theirs}.{name}") for name in ("weight", "bias")]


def _conv(ours: str, theirs: str) -> list[Part]:
    """The lines of a matrix that is (inputs, outputs) there, and its bias."""
    return [Turned(f"{ours}.weight", f"{theirs}.weight"), Same(f"{ours}.bias", f"{theirs}.bias")]
