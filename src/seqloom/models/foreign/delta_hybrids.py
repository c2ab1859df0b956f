"""Hybrids of attention and the gated delta rule.

    qwen3_next   attention with an output gate, norms of q and k, and rotary positions on a share
    olmo_hybrid  attention with norms of q and k over all heads and of its output

Mixtures of experts are not built. The norms of qwen3_next multiply by 1 + weight, but for that of its heads.

Source: transformers' Qwen3NextForCausalLM and OlmoHybridForCausalLM and their configs.
"""

from dataclasses import replace

import torch

from seqloom.models.foreign.around import mlp_parts, read_around, top_parts
from seqloom.models.foreign.attention import FULL, Mixer, attention_parts, read_heads
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fused_parts import ConcatenatedTaps, Rows, Stacked
from seqloom.models.foreign.layer_kinds import LINEAR, build_hybrid, check_layer_kinds
from seqloom.models.foreign.parts import Part, Same, Taps
from seqloom.models.foreign.rope import rotary
from seqloom.models.foreign.values import Values


def qwen3_next(values: Values) -> Foreign:
    """A model of type qwen3_next without experts. ValueError where it has some."""
    settings = read_around(values, rotary(values, share=0.25))
    depth, eps = settings["depth"], settings["norm_eps"]
    values.require("num_experts", 0, default=512)  # mixtures of experts
    values.ignore("decoder_sparse_step", "moe_intermediate_size", "shared_expert_intermediate_size", "mlp_only_layers")
    values.ignore("num_experts_per_tok", "norm_topk_prob", "router_aux_loss_coef", "output_router_logits")
    every = values.size("full_attention_interval", 4)
    kinds = values.optional("layer_types")
    default = [FULL if (layer + 1) % every == 0 else LINEAR for layer in range(depth)]
    listed = default if kinds is None else values.name_list("layer_types", kinds, depth)
    attention: Mixer = {
        **read_heads(values, settings["dim"]),
        **{"bias": "all" if values.get("attention_bias", bool, False) else "none"},
        **{"qk_norm": "heads", "qk_norm_eps": eps, "output_gate": True},
    }
    if attention["bias"] == "all":
        raise ValueError("attention_bias=true is not built for qwen3_next")
    delta: Mixer = {
        "kind": "gated_delta",
        "heads": values.size("linear_num_key_heads", 16),
        "value_heads": values.size("linear_num_value_heads", 32),
        "key_width": values.size("linear_key_head_dim", 128),
        "value_width": values.size("linear_value_head_dim", 128),
        "kernel": values.size("linear_conv_kernel_dim", 4),
        "norm_eps": eps,
    }
    mixers = {FULL: attention, LINEAR: delta}
    parts = {FULL: _gated_attention(attention, settings["dim"]), LINEAR: _delta(delta)}
    norms = {"norm_1": "input_layernorm", "norm_2": "post_attention_layernorm"}
    around = [*(Same(f"{ours}.weight", f"{theirs}.weight", 1.0) for ours, theirs in norms.items()), *mlp_parts()]
    return build_hybrid(
        settings, check_layer_kinds(listed, mixers), mixers, parts, top_parts(settings["tie"], 1.0), around
    )


def _gated_attention(mixer: Mixer, dim: int) -> list[Part]:
    """Attention whose q_proj has, head by head, the rows of the queries and those of the gate."""
    heads, groups = mixer["heads"], mixer["kv_heads"]
    width = mixer.get("width", dim // heads)
    rows = torch.arange(2 * heads * width).view(heads, 2, width)
    keys = torch.arange(groups * width)
    q, k, v = (f"self_attn.{letter}_proj.weight" for letter in "qkv")
    return [
        Rows("mixer.w_qkv.weight", (q, k, v), (rows[:, 0].flatten(), keys, keys), (rows.numel(), len(keys), len(keys))),
        Rows("mixer.w_gate.weight", (q,), (rows[:, 1].flatten(),), (rows.numel(),)),
        Same("mixer.w_out.weight", "self_attn.o_proj.weight"),
        *(Same(f"mixer.norm_{letter}.weight", f"self_attn.{letter}_norm.weight", 1.0) for letter in "qk"),
    ]


def _delta(mixer: Mixer) -> list[Part]:
    """The gated delta rule, whose matrices there are ordered by head of keys: q, k, v, the gate; β, the rate."""
    heads, K, V = mixer["heads"], mixer["key_width"], mixer["value_width"]
    shared = mixer["value_heads"] // heads
    rows = torch.arange(heads * (2 * K + 2 * shared * V)).view(heads, -1)
    q, k, v, z = (part.flatten() for part in rows.split([K, K, shared * V, shared * V], 1))
    rates = torch.arange(2 * heads * shared).view(heads, 2, shared)
    matrices, strengths = "linear_attn.in_proj_qkvz.weight", "linear_attn.in_proj_ba.weight"
    return [
        Rows("mixer.w_qkv.weight", (matrices,), (torch.cat([q, k, v]),), (rows.numel(),)),
        Rows("mixer.w_g.weight", (matrices,), (z,), (rows.numel(),)),
        Rows("mixer.w_b.weight", (strengths,), (rates[:, 0].flatten(),), (rates.numel(),)),
        Rows("mixer.w_a.weight", (strengths,), (rates[:, 1].flatten(),), (rates.numel(),)),
        Same("mixer.w_a.bias", "linear_attn.dt_bias"),
        Same("mixer.a_log", "linear_attn.A_log"),
        Taps("mixer.conv.weight", "linear_attn.conv1d.weight"),
        Same("mixer.norm.weight", "linear_attn.norm.weight"),
        Same("mixer.w_o.weight", "linear_attn.out_proj.weight"),
    ]


def olmo_hybrid(values: Values) -> Foreign:
    """A model of type olmo_hybrid; without `rope_parameters` its attention has no positions."""
    has_angles = (values.optional("rope_parameters") or {}).get("rope_theta") is not None
    position = rotary(values) if has_angles else {"kind": "none"}
    settings = {**read_around(values, position), "norm_place": "by_mixer"}
    dim, depth = settings["dim"], settings["depth"]
    attention: Mixer = {
        **read_heads(values, dim),
        **{"bias": "all" if values.get("attention_bias", bool, False) else "none"},
        **{"qk_norm": "all", "qk_norm_eps": settings["norm_eps"]},
    }
    heads = values.size("linear_num_key_heads", attention["heads"])
    value_heads = values.size("linear_num_value_heads", attention["heads"])
    width = values.size("linear_key_head_dim", int(0.75 * dim / heads))
    value_width = values.size("linear_value_head_dim", 2 * width)
    delta: Mixer = {
        **{"kind": "gated_delta", "heads": heads, "value_heads": value_heads},
        **{"key_width": width, "value_width": value_width, "kernel": values.size("linear_conv_kernel_dim", 4)},
        **{"negative": values.get("linear_allow_neg_eigval", bool, True), "norm_eps": 1e-5},
    }
    values.ignore("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor")
    kinds = values.optional("layer_types")
    default = [FULL if layer % 4 == 3 else LINEAR for layer in range(depth)]
    listed = default if kinds is None else values.name_list("layer_types", kinds, depth)
    mixers = {FULL: attention, LINEAR: delta}
    sizes = (heads * width, heads * width, value_heads * value_width)
    parts = {
        FULL: [*_norms("post_attention_layernorm", "post_feedforward_layernorm"), *attention_parts(attention, dim)],
        LINEAR: [*_norms("attention_layer_norm", "feedforward_layer_norm"), *_separate_delta(sizes)],
    }
    top = top_parts(settings["tie"])
    foreign = build_hybrid(settings, check_layer_kinds(listed, mixers), mixers, parts, top, mlp_parts())
    saved_again = {"post_attention_layernorm.weight": "feedforward_layer_norm.weight"}  # as transformers writes it
    return replace(foreign, older=saved_again)


def _norms(first: str, second: str) -> list[Part]:
    """The two norms of a layer."""
    return [Same("norm_1.weight", f"{first}.weight"), Same("norm_2.weight", f"{second}.weight")]


def _separate_delta(sizes: tuple[int, int, int]) -> list[Part]:
    """The gated delta rule with a matrix and a convolution for each projection, of `sizes` channels."""
    theirs = "linear_attn"
    names = {"w_a.weight": "a_proj.weight", "w_b.weight": "b_proj.weight", "w_g.weight": "g_proj.weight"}
    names |= {"w_o.weight": "o_proj.weight", "w_a.bias": "dt_bias", "a_log": "A_log", "norm.weight": "o_norm.weight"}
    return [
        Stacked("mixer.w_qkv.weight", tuple(f"{theirs}.{letter}_proj.weight" for letter in "qkv"), sizes),
        ConcatenatedTaps("mixer.conv.weight", tuple(f"{theirs}.{letter}_conv1d.weight" for letter in "qkv"), sizes),
        *(Same(f"mixer.{ours}", f"{theirs}.{name}") for ours, name in names.items()),
    ]
