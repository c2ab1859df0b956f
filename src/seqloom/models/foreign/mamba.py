"""Mamba and Mamba-2 as transformers and as their authors store them: one norm and one mixer a layer, a tied output.

Source: transformers' MambaForCausalLM and Mamba2ForCausalLM and their configs; MambaConfig of state-spaces/mamba.
"""

from dataclasses import replace
from math import ceil
from typing import Any

from seqloom.mixers.state_space.mamba import MambaConfig
from seqloom.mixers.state_space.mamba2 import Mamba2Config
from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.around import read_sizes
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fla import KERNELS
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
    return _model(values, dim, mixer, values.get("layer_norm_epsilon", float, 1e-5), layer)


def mamba2(values: Values) -> Foreign:
    """A model of type mamba2, of transformers or of flash-linear-attention, whose name for ε is `norm_eps`."""
    eps = values.get("layer_norm_epsilon", float, values.get("norm_eps", float, 1e-5))
    for name, value in {"D_has_hdim": False, "rmsnorm": True, "norm_before_gate": False}.items():
        values.require(name, value, default=value)
    limits = "dt_limit" if values.optional("dt_limit") else "time_step_limit"
    dim = values.size("hidden_size")
    expand, groups = values.size("expand", 2), values.size("n_groups", 8)
    width, heads = values.size("head_dim", 64), values.size("num_heads", 128)
    if width * heads != expand * dim:
        raise ValueError(f"num_heads {heads} × head_dim {width} must be expand × hidden_size = {expand * dim}")
    values.require("use_bias", False, default=False)
    values.require("use_conv_bias", True, default=True)
    values.ignore("chunk_size", "rms_norm", "time_step_rank")
    require_no_limits(values, limits)
    _steps(values)
    mixer = {
        "kind": "mamba2",
        "state_dim": values.size("state_size", 128),
        "expand": expand,
        "head_width": width,
        "groups": groups,
        "kernel": values.size("conv_kernel", 4),
        "norm_eps": eps,
    }
    return _model(values, dim, mixer, eps, [Same("norm_1.weight", "norm.weight"), *mamba2_parts(groups, "mixer.")])


def mamba2_parts(groups: int, theirs: str) -> list[Part]:
    """The table of one Mamba-2, whose names there begin with `theirs`."""
    parts: list[Part] = [
        Same("w_in.weight", "in_proj.weight"),
        Same("w_out.weight", "out_proj.weight"),
        Taps("conv.weight", "conv1d.weight"),
        Same("conv.bias", "conv1d.bias"),
        Same("a_log", "A_log"),
        Same("step_bias", "dt_bias"),
        Same("d", "D"),
        Groups("norm.weight", "norm.weight", groups),
    ]
    return [part.under("mixer.", theirs) for part in parts]


def state_spaces(values: Values) -> Foreign:
    """A Mamba or Mamba-2 of state-spaces/mamba, whose config.json names no type."""
    dim, depth = values.size("d_model"), values.size("n_layer", most=4096)
    padding = values.size("pad_vocab_size_multiple", 8)
    own = values.get("ssm_cfg", dict, {})
    values.require("rms_norm", True, default=True)
    values.require("d_intermediate", 0, default=0)
    values.require("tie_embeddings", True, default=True)
    values.ignore("residual_in_fp32", "fused_add_norm", "chunk_size")
    layer = str(own.get("layer", "Mamba1"))
    names = {"d_state": "state_size", "d_conv": "conv_kernel", "expand": "expand", "ngroups": "n_groups"}
    names |= {"headdim": "head_dim", "dt_rank": "time_step_rank"}
    unknown = sorted(own.keys() - names.keys() - {"layer"})
    if unknown or layer not in ("Mamba1", "Mamba2"):
        raise ValueError(f"ssm_cfg {unknown or layer} is not built")
    given = {theirs: own[ours] for ours, theirs in names.items() if ours in own}
    defaults: dict[str, Any] = {}
    if layer == "Mamba2":
        width = given.get("head_dim", 64)
        defaults = {"n_groups": 1, "num_heads": given.get("expand", 2) * dim // width}
    vocab = values.size("vocab_size", most=2**24)
    content = {
        **{"vocab_size": padding * ceil(vocab / padding), "hidden_size": dim, "num_hidden_layers": depth},
        **{**defaults, **given},
    }
    foreign = (mamba2 if layer == "Mamba2" else mamba)(Values(content, "config.json"))
    parts = [
        Same(part.ours, "backbone.embedding.weight") if part.ours == "token.weight" else part for part in foreign.parts
    ]
    return replace(foreign, parts=parts)


def require_no_limits(values: Values, name: str = "time_step_limit") -> None:
    """Raises ValueError where steps have limits."""
    limits = values.optional(name)
    if limits is not None and (limits[0] > 0 or limits[1] not in (float("inf"), {"__float__": "Infinity"})):
        raise ValueError(f"{name}={limits} is not built: only steps without limits are")


def describe_mamba(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type mamba."""
    mixer = config.mixers[0]
    if not isinstance(mixer, MambaConfig):
        raise ValueError(f"mamba has the mixer mamba, and the model {mixer.kind}")
    return {
        **_describe(config),
        "state_size": mixer.state_dim,
        "expand": mixer.expand,
        "intermediate_size": mixer.expand * config.dim,
        "conv_kernel": mixer.kernel,
        "time_step_rank": mixer.dt_rank,
    }


def describe_mamba2(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type mamba2."""
    mixer = config.mixers[0]
    if not isinstance(mixer, Mamba2Config):
        raise ValueError(f"mamba2 has the mixer mamba2, and the model {mixer.kind}")
    return {
        **_describe(config),
        "state_size": mixer.state_dim,
        "expand": mixer.expand,
        "n_groups": mixer.groups,
        "head_dim": mixer.head_width,
        "num_heads": mixer.expand * config.dim // mixer.head_width,
        "conv_kernel": mixer.kernel,
    }


def _describe(config: DecoderConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tie,
    }


def _steps(values: Values) -> None:
    """What only begins a training, or is about precision."""
    values.ignore("time_step_init_scheme", "time_step_max", "time_step_min", "time_step_floor", "time_step_scale")
    values.ignore("rescale_prenorm_residual", "residual_in_fp32", "use_mambapy", "use_associative_scan")
    values.ignore("A_init_range", "conv_init", "dt_init_floor", "dt_max", "dt_min", *KERNELS)


def _model(values: Values, dim: int, mixer: dict[str, Any], eps: float, layer: list[Part]) -> Foreign:
    values.require("hidden_act", "silu", default="silu")
    tied = values.get("tie_word_embeddings", bool, values.optional("norm_eps") is None)  # fla's default is False
    around = read_sizes(values)
    settings = {
        **around,
        "context": 2048,
        "ffn": dim,
        "position": {"kind": "none"},
        "channel": "none",
        "norm": "rms",
        "norm_eps": eps,
        "tie": tied,
        "mixer": mixer,
    }
    top: list[Part] = [
        Same("token.weight", "backbone.embeddings.weight"),
        Same("norm.weight", "backbone.norm_f.weight"),
    ]
    if not tied:
        top.append(Same("head.weight", "lm_head.weight"))
    parts = top + of_layers(layer, "layers.{}.", "backbone.layers.{}.", around["depth"])
    return Foreign(settings, parts, without_weights=r"lm_head\.weight" if tied else r"$^")
