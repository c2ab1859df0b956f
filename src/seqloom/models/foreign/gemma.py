"""Gemma and Gemma 2: embeddings times √dim, norms that multiply by 1 + weight, GELU gates; in Gemma 2 also caps.

    gemma2: norms of what sublayers read and of what they give; capped scores and logits; a window in every other layer

Source: transformers' GemmaForCausalLM and Gemma2ForCausalLM and their configs.
"""

from typing import Any

from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.around import describe_around, mlp_parts, read_around, top_parts, without_weights
from seqloom.models.foreign.attention import (
    FULL,
    SLIDING,
    Mixer,
    attention_parts,
    describe_heads,
    read_heads,
    require_attention,
    with_windows,
)
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import Part, Same, of_layers
from seqloom.models.foreign.rope import describe_rotary, rotary
from seqloom.models.foreign.values import Values

NORMS = {"norm_1": "input_layernorm", "norm_2": "post_attention_layernorm"}
NORMS_2 = {
    **{"norm_1": "input_layernorm", "norm_3": "post_attention_layernorm"},
    **{"norm_2": "pre_feedforward_layernorm", "norm_4": "post_feedforward_layernorm"},
}


def gemma(values: Values) -> Foreign:
    """A model of type gemma."""
    values.require("hidden_act", "gelu", "gelu_pytorch_tanh", default="gelu")  # both mean the form by tanh
    values.ignore("hidden_activation")
    settings = {**_settings(values, "hidden_act"), "activation": "gelu_tanh"}
    mixer: Mixer = {**read_heads(values, settings["dim"]), "bias": _biases(values)}
    return _foreign({**settings, "mixer": mixer}, mixer, NORMS)


def gemma2(values: Values) -> Foreign:
    """A model of type gemma2."""
    values.ignore("hidden_act")
    values.require("use_bidirectional_attention", False, default=False)
    settings = _settings(values, "hidden_activation")
    depth = settings["depth"]
    mixer: Mixer = {**read_heads(values, settings["dim"]), "bias": _biases(values)}
    mixer["scale"] = values.get("query_pre_attn_scalar", float, 256.0) ** -0.5
    cap = values.optional("attn_logit_softcapping")
    if cap is not None:
        mixer["softcap"] = float(cap)
    kinds = values.optional("layer_types")
    default = [FULL if layer % 2 else SLIDING for layer in range(depth)]
    listed = default if kinds is None else values.name_list("layer_types", kinds, depth)
    mixers = with_windows(mixer, listed, values.size("sliding_window", 4096, most=2**24))
    settings |= {"norm_place": "both", "mixer": mixers}
    cap = values.optional("final_logit_softcapping")
    if cap is not None:
        settings["logit_cap"] = float(cap)
    return _foreign(settings, mixer, NORMS_2)


def describe_gemma(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type gemma."""
    return _describe(config)


def describe_gemma2(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type gemma2."""
    mixers = [require_attention(mixer, "gemma2") for mixer in config.mixers]
    scale = mixers[0].scale
    settings = {name: value for name, value in _describe(config).items() if name != "hidden_act"}
    return {
        **settings,
        "hidden_activation": describe_around(config)["hidden_act"],
        "query_pre_attn_scalar": mixers[0].head_width(config.dim) if scale is None else _whole(scale**-2),
        "attn_logit_softcapping": mixers[0].softcap,
        "final_logit_softcapping": config.logit_cap,
        "sliding_window": next((mixer.window for mixer in mixers if mixer.window is not None), 4096),
        "layer_types": [FULL if mixer.window is None else SLIDING for mixer in mixers],
    }


def _whole(number: float) -> float | int:
    """The number, as a whole one where it is one but for rounding."""
    return round(number) if abs(number - round(number)) < 1e-9 * number else number


def _biases(values: Values) -> str:
    return "all" if values.get("attention_bias", bool, False) else "none"


def _settings(values: Values, activation: str) -> dict[str, Any]:
    settings = read_around(values, rotary(values), activation)
    return {**settings, "embed_scale": True, "tie": values.get("tie_word_embeddings", bool, True)}


def _describe(config: DecoderConfig) -> dict[str, Any]:
    mixer = require_attention(config.mixers[0], "gemma")
    around = {**describe_around(config), **describe_heads(mixer, config.dim), **describe_rotary(config)}
    return {**around, "attention_bias": mixer.bias == "all"}


def _foreign(settings: dict[str, Any], mixer: Mixer, norms: dict[str, str]) -> Foreign:
    tied = settings["tie"]
    layer: list[Part] = [
        *(Same(f"{ours}.weight", f"{theirs}.weight", 1.0) for ours, theirs in norms.items()),
        *attention_parts(mixer, settings["dim"]),
        *mlp_parts(),
    ]
    top = top_parts(tied, 1.0, "inner." if "logit_cap" in settings else "")
    parts = top + of_layers(layer, "layers.{}.", "model.layers.{}.", settings["depth"])
    return Foreign(settings, parts, without_weights=without_weights(tied))
