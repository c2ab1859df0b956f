"""Mamba and Mamba-2 as transformers stores them: one norm and one mixer a layer, a tied output.

Source: transformers' MambaForCausalLM and Mamba2ForCausalLM and their configs.
"""

from math import ceil
from typing import Any

from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.parts import Groups, Part, Same, Taps, of_layers
from seqloom.models.foreign.values import Values


def mamba(values: Values) -> Foreign:
    """A model of type mamba."""
    dim = values.size("hidden_size")
    kernel = values.size("conv_kernel", 4)
    expand = values.size("expand", 2)
    values.require("intermediate_size", expand * dim, default=expand * dim)
    values.require("use_bias", False, default=False)
    values.require("use_conv_bias", True, default=True)
    rank = values.optional("time_step_rank")
    rank = ceil(dim / 16) if rank in (None, "auto") else rank
    _steps(values)
    mixer = {
        "kind": "mamba",
        "state_dim": values.size("state_size", 16),
        "expand": expand,
        "kernel": kernel,
        "dt_rank": rank,
    }
    names = ("in_proj.weight", "x_proj.weight", "out_proj.weight", "dt_proj.weight", "dt_proj.bias")
    layer: list[Part] = [
        Same("norm_1.weight", "norm.weight"),
        *(Same(f"mixer.{name}", f"mixer.{name}") for name in names),
        Same("mixer.a_log", "mixer.A_log"),
        Same("mixer.d", "mixer.D"),
        Taps("mixer.conv_weight", "mixer.conv1d.weight"),
        Same("mixer.conv_bias", "mixer.conv1d.bias"),
    ]
    return _model(values, dim, mixer, layer)


def mamba2(values: Values) -> Foreign:
    """A model of type mamba2."""
    dim = values.size("hidden_size")
    expand, groups = values.size("expand", 2), values.size("n_groups", 8)
    width, heads = values.size("head_dim", 64), values.size("num_heads", 128)
    if width * heads != expand * dim:
        raise ValueError(f"num_heads {heads} × head_dim {width} must be expand × hidden_size = {expand * dim}")
    values.require("use_bias", False, default=False)
    values.require("use_conv_bias", True, default=True)
    values.ignore("chunk_size", "rms_norm", "time_step_rank")
    limits = values.optional("time_step_limit")
    if limits is not None and (limits[0] > 0 or limits[1] not in (float("inf"), {"__float__": "Infinity"})):
        raise ValueError(f"time_step_limit={limits} is not built: only steps without limits are")
    _steps(values)
    mixer = {
        "kind": "mamba2",
        "state_dim": values.size("state_size", 128),
        "expand": expand,
        "head_width": width,
        "groups": groups,
        "kernel": values.size("conv_kernel", 4),
    }
    layer: list[Part] = [
        Same("norm_1.weight", "norm.weight"),
        Same("mixer.w_in.weight", "mixer.in_proj.weight"),
        Same("mixer.w_out.weight", "mixer.out_proj.weight"),
        Taps("mixer.conv.weight", "mixer.conv1d.weight"),
        Same("mixer.conv.bias", "mixer.conv1d.bias"),
        Same("mixer.a_log", "mixer.A_log"),
        Same("mixer.step_bias", "mixer.dt_bias"),
        Same("mixer.d", "mixer.D"),
        Groups("mixer.norm.weight", "mixer.norm.weight", groups),
    ]
    return _model(values, dim, mixer, layer)


def _steps(values: Values) -> None:
    """What only begins a training, or is about precision."""
    values.ignore("time_step_init_scheme", "time_step_max", "time_step_min", "time_step_floor", "time_step_scale")
    values.ignore("rescale_prenorm_residual", "residual_in_fp32", "use_mambapy", "use_associative_scan")


def _model(values: Values, dim: int, mixer: dict[str, Any], layer: list[Part]) -> Foreign:
    depth = values.size("num_hidden_layers", most=4096)
    values.require("hidden_act", "silu", default="silu")
    tied = values.get("tie_word_embeddings", bool, True)
    settings = {
        "kind": "decoder",
        "vocab": values.size("vocab_size", most=2**24),
        "dim": dim,
        "depth": depth,
        "context": 2048,
        "ffn": dim,
        "dropout": 0.0,
        "position": {"kind": "none"},
        "channel": "none",
        "norm": "rms",
        "norm_eps": values.get("layer_norm_epsilon", float, 1e-5),
        "embed_scale": False,
        "head_bias": False,
        "tie": tied,
        "mixer": mixer,
    }
    top: list[Part] = [
        Same("token.weight", "backbone.embeddings.weight"),
        Same("norm.weight", "backbone.norm_f.weight"),
    ]
    if not tied:
        top.append(Same("head.weight", "lm_head.weight"))
    parts = top + of_layers(layer, "layers.{}.", "backbone.layers.{}.", depth)
    return Foreign(settings, parts, without_weights=r"lm_head\.weight" if tied else r"$^")
