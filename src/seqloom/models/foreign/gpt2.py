"""GPT-2 and GPT-NeoX (Pythia): layer norms and biases.

GPT-2 has a learned table of positions, GELU by tanh and a tied output; GPT-NeoX rotary positions on a share of the
channels of each head, and sublayers in parallel.

Source: transformers' GPT2LMHeadModel and GPTNeoXForCausalLM and their configs.
"""

from typing import Any

from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.around import GELU, read_sizes, require_ffn
from seqloom.models.foreign.attention import require_attention
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import ByHead, Part, Same, Transposed, of_layers
from seqloom.models.foreign.rope import describe_rotary, rotary
from seqloom.models.foreign.values import Values

NAMES = {"gelu_tanh": "gelu_new", "gelu": "gelu"}
"""our activations by the names that are written"""


def gpt2(values: Values) -> Foreign:
    """A model of type gpt2."""
    around = read_sizes(values, "n_embd", "n_layer")
    dim, depth, heads = around["dim"], around["depth"], values.size("n_head")
    activation = GELU[values.require("activation_function", *GELU, default="gelu_new")]
    values.require("scale_attn_weights", True, default=True)
    values.require("scale_attn_by_inverse_layer_idx", False, default=False)
    values.require("add_cross_attention", False, default=False)
    values.ignore("reorder_and_upcast_attn", "n_ctx")
    tied = values.get("tie_word_embeddings", bool, True)
    settings = {
        **around,
        **{"norm": "layer", "activation": activation, "tie": tied},
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
    around = read_sizes(values)
    depth = around["depth"]
    heads = values.size("num_attention_heads")
    activation = GELU[values.require("hidden_act", *GELU, default="gelu")]
    biases = values.get("attention_bias", bool, True)
    parallel = values.get("use_parallel_residual", bool, True)
    tied = values.get("tie_word_embeddings", bool, False)
    settings = {
        **around,
        **{"norm": "layer", "activation": activation, "tie": tied},
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


def describe_gpt2(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type gpt2."""
    ffn = require_ffn(config)
    return {
        "vocab_size": config.vocab,
        "n_embd": config.dim,
        "n_layer": config.depth,
        "n_head": require_attention(config.mixers[0], "gpt2").heads,
        "n_positions": config.context,
        "n_inner": ffn.width,
        "activation_function": NAMES.get(ffn.activation, ffn.activation),
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tie,
    }


def describe_gpt_neox(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type gpt_neox."""
    ffn, mixer = require_ffn(config), require_attention(config.mixers[0], "gpt_neox")
    rope = describe_rotary(config)["rope_parameters"]
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": mixer.heads,
        "attention_bias": mixer.bias == "all",
        "max_position_embeddings": config.context,
        "intermediate_size": ffn.width,
        "hidden_act": NAMES.get(ffn.activation, ffn.activation),
        "layer_norm_eps": config.norm_eps,
        "use_parallel_residual": config.sublayers == "parallel",
        "tie_word_embeddings": config.tie,
        "rope_parameters": {"partial_rotary_factor": 1.0, **rope},
    }


def _both(kind: type[Same], ours: str, theirs: str) -> list[Part]:
    """The lines of a weight and a bias."""
    return [kind(f"{ours}.{name}", f"{theirs}.{name}") for name in ("weight", "bias")]


def _conv(ours: str, theirs: str) -> list[Part]:
    """The lines of a matrix that is (inputs, outputs) there, and its bias."""
    return [Transposed(f"{ours}.weight", f"{theirs}.weight"), Same(f"{ours}.bias", f"{theirs}.bias")]
