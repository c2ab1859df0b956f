"""Hybrids of attention and another recurrent mixer than the delta rule, for which see `delta_hybrids`.

    bamba            Mamba-2, and attention with rotary positions on a share
    recurrent_gemma  RG-LRU, and attention with a window and rotary positions on a share; capped logits

Source: transformers' BambaForCausalLM and RecurrentGemmaForCausalLM and their configs.
"""

from seqloom.models.foreign.around import mlp_parts, read_around, top_parts
from seqloom.models.foreign.attention import FULL, Mixer, attention_parts, read_heads
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fused_parts import Concatenated
from seqloom.models.foreign.layer_kinds import LINEAR, build_hybrid, check_layer_kinds
from seqloom.models.foreign.mamba import mamba2_parts, require_no_limits
from seqloom.models.foreign.parts import Part, Same, Taps
from seqloom.models.foreign.rope import rotary
from seqloom.models.foreign.values import Values


def bamba(values: Values) -> Foreign:
    """A model of type bamba."""
    settings = read_around(values, rotary(values, share=0.5))
    depth, dim = settings["depth"], settings["dim"]
    values.require("mlp_bias", False, default=False)
    values.require("mamba_proj_bias", False, default=False)
    values.require("mamba_conv_bias", True, default=True)
    values.ignore("mamba_chunk_size", "num_logits_to_keep", "z_loss_coefficient", "layer_types", "layers_block_type")
    require_no_limits(values)
    attention: Mixer = {
        **read_heads(values, dim),
        "bias": "all" if values.get("attention_bias", bool, False) else "none",
    }
    groups, heads = values.size("mamba_n_groups", 1), values.size("mamba_n_heads", 128)
    expand = values.size("mamba_expand", 2)
    values.require("mamba_d_head", "auto", expand * dim // heads, default="auto")
    mamba: Mixer = {
        "kind": "mamba2",
        "state_dim": values.size("mamba_d_state", 256),
        "expand": expand,
        "head_width": expand * dim // heads,
        "groups": groups,
        "kernel": values.size("mamba_d_conv", 4),
        "norm_eps": settings["norm_eps"],
    }
    indices = values.optional("attn_layer_indices") or []
    kinds = [FULL if layer in indices else LINEAR for layer in range(depth)]
    mixers = {FULL: attention, LINEAR: mamba}
    parts = {FULL: attention_parts(attention, dim), LINEAR: mamba2_parts(groups, "mamba.")}
    around: list[Part] = [
        Same("norm_1.weight", "input_layernorm.weight"),
        Same("norm_2.weight", "pre_ff_layernorm.weight"),
        *mlp_parts("feed_forward"),
    ]
    top = [part for part in top_parts(settings["tie"]) if part.ours != "norm.weight"]
    return build_hybrid(
        settings, kinds, mixers, parts, [*top, Same("norm.weight", "model.final_layernorm.weight")], around
    )


def recurrent_gemma(values: Values) -> Foreign:
    """A model of type recurrent_gemma."""
    position = rotary(values, share=0.5)
    values.require("attention_bias", False, default=False)
    values.ignore("w_init_variance_scale", "final_w_init_variance_scale", "sliding_window", "layer_types")
    values.ignore("layers_block_type")
    settings = read_around(values, position, "hidden_activation", context=8192)
    dim, depth = settings["dim"], settings["depth"]
    ffn = {"width": values.size("intermediate_size") // 2, "activation": settings["activation"], "gated": True}
    around = {name: value for name, value in settings.items() if name not in ("activation", "glu", "ffn_bias")}
    tied = values.get("tie_word_embeddings", bool, True)
    cap = values.get("logits_soft_cap", float, 30.0)
    settings = {**around, "ffn": ffn, "embed_scale": True, "tie": tied, "logit_cap": cap}
    attention: Mixer = {
        **read_heads(values, dim),
        **{"bias": "out", "window": values.size("attention_window_size", 2048, most=2**24)},
    }
    recurrent: Mixer = {
        **{"kind": "rglru", "heads": attention["heads"], "width": values.size("lru_width", dim)},
        **{"kernel": values.size("conv1d_width", 4)},
    }
    blocks = values.optional("block_types") or ["recurrent", "recurrent", "attention"]
    mixers = {"attention": attention, "recurrent": recurrent}
    kinds = check_layer_kinds((list(blocks) * depth)[:depth], mixers)
    parts = {"attention": attention_parts(attention, dim, "temporal_block"), "recurrent": _recurrent_block()}
    top = [part for part in top_parts(tied, inner="inner.") if part.ours != "norm.weight"]
    top.append(Same("norm.weight", "model.final_norm.weight", 1.0))
    names = {"w_gate": "gate_proj", "w_1": "up_proj", "w_2": "down_proj"}
    layer: list[Part] = [
        Same("norm_1.weight", "temporal_pre_norm.weight", 1.0),
        Same("norm_2.weight", "channel_pre_norm.weight", 1.0),
        *mlp_parts("mlp_block"),
        *(Same(f"ffn.{ours}.bias", f"mlp_block.{theirs}.bias") for ours, theirs in names.items()),
    ]
    return build_hybrid(settings, kinds, mixers, parts, top, layer, "attention")


def _recurrent_block() -> list[Part]:
    """The table of Griffin's recurrent block."""
    names = {"w_x": "linear_x", "w_y": "linear_y", "w_o": "linear_out"}
    theirs, gates = "temporal_block", "temporal_block.rg_lru"
    parts: list[Part] = [
        Same("mixer.rate", f"{gates}.recurrent_param"),
        Taps("mixer.conv.weight", f"{theirs}.conv_1d.weight"),
        Same("mixer.conv.bias", f"{theirs}.conv_1d.bias"),
    ]
    for what in ("weight", "bias"):
        parts += [Same(f"mixer.{ours}.{what}", f"{theirs}.{name}.{what}") for ours, name in names.items()]
        parts.append(
            Concatenated(f"mixer.gates.{what}", (f"{gates}.recurrent_gate_{what}", f"{gates}.input_gate_{what}"))
        )
    return parts
