"""Llama and its relatives: RMS norms, rotary positions, grouped queries, SwiGLU, no biases.

    llama · mistral (a window) · qwen2 (biases of q, k, v; windows) · qwen3 (norms of q and k per head; windows)
    olmo2 (norms of q and k over all heads; norms of what sublayers give, instead of what they read)

SmolLM, SmolLM2 and TinyLlama are `llama`.

Source: transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Olmo2ForCausalLM and
their configs.
"""

from typing import Any

from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.around import (
    describe_around,
    mlp_parts,
    read_around,
    top_parts,
    without_weights,
)
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
OUTPUT_NORMS = {"norm_1": "post_attention_layernorm", "norm_2": "post_feedforward_layernorm"}


def llama(values: Values) -> Foreign:
    """A model of type llama."""
    values.require("mlp_bias", False, default=False)
    return _read(values, {"bias": _biases(values)})


def mistral(values: Values) -> Foreign:
    """A model of type mistral; its window is that of all layers."""
    window = values.optional("sliding_window")
    return _read(values, {} if window is None else {"window": int(window)})


def qwen2(values: Values) -> Foreign:
    """A model of type qwen2; its windows are those of the later layers."""
    return _read(values, {"bias": "qkv"}, _kinds_of_qwen(values))


def qwen3(values: Values) -> Foreign:
    """A model of type qwen3; its windows are as those of qwen2."""
    return _read(values, {"bias": _biases(values), "qk_norm": "heads"}, _kinds_of_qwen(values))


def olmo2(values: Values) -> Foreign:
    """A model of type olmo2."""
    return _read(values, {"bias": _biases(values), "qk_norm": "all"}, norm_place="outputs")


def describe_llama(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type llama or olmo2."""
    mixer = require_attention(config.mixers[0], "the family")
    return {**_describe(config), "attention_bias": mixer.bias == "all"}


def describe_mistral(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type mistral."""
    return {**_describe(config), "sliding_window": require_attention(config.mixers[0], "mistral").window}


def describe_qwen(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type qwen2 or qwen3."""
    mixers = [require_attention(mixer, "qwen") for mixer in config.mixers]
    window = next((mixer.window for mixer in mixers if mixer.window is not None), None)
    windows = {
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "layer_types": [FULL if mixer.window is None else SLIDING for mixer in mixers],
    }
    return {**_describe(config), **windows, "attention_bias": mixers[0].bias == "all"}


def _biases(values: Values) -> str:
    return "all" if values.get("attention_bias", bool, False) else "none"


def _kinds_of_qwen(values: Values) -> list[str]:
    """The kind of each layer's attention: windows begin at layer `max_window_layers`, where they are used."""
    depth = values.size("num_hidden_layers", most=4096)
    uses, first = values.get("use_sliding_window", bool, False), values.get("max_window_layers", int, 28)
    kinds = values.optional("layer_types")
    if not uses:
        values.ignore("sliding_window")
    default = [SLIDING if uses and layer >= first else FULL for layer in range(depth)]
    return default if kinds is None else values.name_list("layer_types", kinds, depth)


def _read(values: Values, attention: Mixer, kinds: list[str] | None = None, norm_place: str = "before") -> Foreign:
    """The model, with settings of its attention that differ from Llama's."""
    settings = read_around(values, rotary(values))
    mixer: Mixer = {**read_heads(values, settings["dim"]), **attention}
    if mixer.get("qk_norm", "none") != "none":
        mixer["qk_norm_eps"] = settings["norm_eps"]
    if kinds is None:
        given = values.optional("layer_types") or [FULL]
        if len(set(given)) > 1 or set(given) - {FULL, SLIDING}:
            raise ValueError(f"layer_types {sorted(set(given))} are not built: all layers must be of one kind")
        mixers: Any = mixer
    else:
        mixers = with_windows(mixer, kinds, values.optional("sliding_window") if SLIDING in kinds else None)
    settings = {**settings, "norm_place": norm_place, "mixer": mixers}
    norms = NORMS if norm_place == "before" else OUTPUT_NORMS
    layer: list[Part] = [
        *(Same(f"{ours}.weight", f"{theirs}.weight") for ours, theirs in norms.items()),
        *attention_parts(mixer, settings["dim"]),
        *mlp_parts(),
    ]
    return Foreign(
        settings,
        top_parts(settings["tie"]) + of_layers(layer, "layers.{}.", "model.layers.{}.", settings["depth"]),
        without_weights=without_weights(settings["tie"]),
    )


def _describe(config: DecoderConfig) -> dict[str, Any]:
    mixer = require_attention(config.mixers[0], "the family")
    return {**describe_around(config), **describe_heads(mixer, config.dim), **describe_rotary(config)}
