"""Models of flash-linear-attention whose layers are a mixer and SwiGLU, each after an RMS norm; some may be attention.

    gated_deltanet · delta_net · kda · gla · retnet · hgrn2

Their convolutions, decays and gates must be those of our mixers; a setting that chooses others is refused by its name.

Source: the layers and configs in fla/models and fla/layers of flash-linear-attention, at commit bc3b101d.
"""

from math import ceil
from typing import Any

from seqloom.models.foreign.around import mlp_parts, read_sizes
from seqloom.models.foreign.attention import Mixer, attention_parts, shortest
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fused_parts import ConcatenatedTaps, Stacked
from seqloom.models.foreign.parts import Part, Same
from seqloom.models.foreign.values import Values

KERNELS = (
    *("attn_mode", "fuse_norm", "fuse_swiglu", "fuse_cross_entropy", "fuse_linear_cross_entropy", "use_l2warp"),
    *("hidden_ratio",),
)
"""settings of how they compute, not what"""
Projections = dict[str, str]
"""names of our matrices and theirs"""


def gated_deltanet(values: Values) -> Foreign:
    """A model of type gated_deltanet."""
    values.require("use_gate", True, default=True)
    values.require("use_short_conv", True, default=True)
    heads, width = values.size("num_heads", 6), values.size("head_dim", 256)
    value_heads = values.size("num_v_heads", heads)
    value_width = int(width * values.get("expand_v", float, 2.0))
    eps = values.get("norm_eps", float, 1e-6)
    kernel = values.size("conv_size", 4)
    mixer: Mixer = {
        **{"kind": "gated_delta", "heads": heads, "value_heads": value_heads, "kernel": kernel, "norm_eps": eps},
        **{"key_width": width, "value_width": value_width},
        **{"negative": values.get("allow_neg_eigval", bool, False)},
    }
    sizes = (heads * width, heads * width, value_heads * value_width)
    parts = [
        *_convolution_matrices(sizes),
        *_projection_matrices({"w_a": "a_proj", "w_b": "b_proj", "w_g": "g_proj", "w_o": "o_proj"}),
        *_named_parameters({"w_a.bias": "dt_bias", "a_log": "A_log", "norm.weight": "o_norm.weight"}),
    ]
    return _model(values, mixer, parts, eps)


def delta_net(values: Values) -> Foreign:
    """A model of type delta_net."""
    values.require("use_gate", False, default=False)
    values.require("qk_norm", "l2", default="l2")
    values.require("qk_activation", "silu", default="silu")
    for name in ("use_short_conv", "use_beta", "use_output_norm"):
        values.require(name, True, default=True)
    for name in ("expand_k", "expand_v"):
        values.require(name, 1, default=1)
    dim, eps, kernel = values.size("hidden_size"), values.get("norm_eps", float, 1e-6), values.size("conv_size", 4)
    mixer: Mixer = {
        **{"kind": "delta", "heads": values.size("num_heads", 16), "kernel": kernel, "norm_eps": eps},
        **{"negative": values.get("allow_neg_eigval", bool, False)},
    }
    parts = [
        *_convolution_matrices((dim, dim, dim)),
        *_projection_matrices({"w_b": "b_proj", "w_o": "o_proj"}),
        *_named_parameters({"norm.weight": "o_norm.weight"}),
    ]
    return _model(values, mixer, parts, eps)


def kda(values: Values) -> Foreign:
    """A model of type kda."""
    dim, heads = values.size("hidden_size"), values.size("num_heads", 16)
    values.require("head_dim", dim // heads, default=128)
    values.require("expand_v", 1, default=1)
    values.require("num_v_heads", heads, default=heads)
    values.require("use_short_conv", True, default=True)
    values.require("allow_neg_eigval", False, default=False)
    values.require("safe_gate", False, default=False)
    eps, kernel = values.get("norm_eps", float, 1e-6), values.size("conv_size", 4)
    mixer: Mixer = {"kind": "kda", "heads": heads, "kernel": kernel, "norm_eps": eps}
    thin = {"decay_in": "f_proj.0", "decay_out": "f_proj.1", "gate_in": "g_proj.0", "gate_out": "g_proj.1"}
    parts = [
        *_convolution_matrices((dim, dim, dim)),
        *_projection_matrices({"w_b": "b_proj", "w_o": "o_proj", **thin}),
        *_named_parameters({"decay_out.bias": "dt_bias", "gate_out.bias": "g_proj.1.bias", "a_log": "A_log"}),
        *_named_parameters({"norm.weight": "o_norm.weight"}),
    ]
    return _model(values, mixer, parts, eps)


def gla(values: Values) -> Foreign:
    """A model of type gla."""
    _plain_heads(values, expand_k=0.5, expand_v=1)
    values.require("use_gk", True, default=True)
    values.require("use_gv", False, default=False)
    eps = values.get("norm_eps", float, 1e-6)
    mixer: Mixer = {"kind": "gla", "heads": values.size("num_heads", 4), "norm_eps": eps}
    names = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_g": "g_proj", "w_o": "o_proj"}
    parts = [
        *_projection_matrices({**names, "w_1": "gk_proj.0", "w_2": "gk_proj.1"}),
        *_named_parameters({"w_2.bias": "gk_proj.1.bias", "norm.weight": _head_norm(values)}),
    ]
    return _model(values, mixer, parts, eps)


def retnet(values: Values) -> Foreign:
    """A model of type retnet."""
    _plain_heads(values, expand_k=1, expand_v=2)
    eps = values.get("norm_eps", float, 1e-6)
    mixer: Mixer = {"kind": "retention", "heads": values.size("num_heads", 8), "eps": eps, "head_norm": "rms"}
    names = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_g": "g_proj", "w_o": "o_proj"}
    return _model(
        values,
        mixer,
        [*_projection_matrices(names), *_named_parameters({"norm.weight": _head_norm(values)})],
        eps,
        ratio=2,
    )


def hgrn2(values: Values) -> Foreign:
    """A model of type hgrn2."""
    dim, eps = values.size("hidden_size"), values.get("norm_eps", float, 1e-6)
    width = values.optional("expand_ratio") or dim // values.size("num_heads", 1)
    heads = dim // int(width)
    values.require("num_heads", heads, default=heads)
    values.require("use_short_conv", False, default=False)
    values.require("use_lower_bound", True, default=True)
    values.require("elementwise_affine", True, default=True)
    values.ignore("conv_size")
    parts = [
        *_projection_matrices({"w_q": "q_proj", "w_f": "f_proj", "w_i": "i_proj", "w_o": "o_proj"}),
        *_named_parameters({"norm.weight": "g_norm.weight"}),
    ]
    values.require("attn", None)  # bounds count all layers
    foreign = _model(values, {"kind": "hgrn2", "heads": heads}, parts, eps)
    if foreign.settings["depth"] == 1:
        raise ValueError("lower bounds of one layer are not built")
    return Foreign(
        foreign.settings, [*foreign.parts, Same("shared.hgrn2.table", "model.lower_bounds")], foreign.without_weights
    )


def _plain_heads(values: Values, expand_k: float, expand_v: float) -> None:
    """Raises ValueError where heads have feature maps, convolutions, groups or widths of their own."""
    values.require("expand_k", expand_k, default=expand_k)
    values.require("expand_v", expand_v, default=expand_v)
    values.require("num_kv_heads", None, values.optional("num_heads"))
    values.require("use_short_conv", False, default=False)
    values.require("use_output_gate", True, default=True)
    values.require("elementwise_affine", True, default=True)
    values.ignore("conv_size")


def _head_norm(values: Values) -> str:
    """The name of the norm of the heads, which depends on the kernel."""
    return "g_norm_swish_gate.weight" if values.get("fuse_norm", bool, True) else "g_norm.weight"


def _named_parameters(names: dict[str, str]) -> list[Part]:
    """Parameters of the mixer that are the same there."""
    return [Same(f"mixer.{ours}", f"attn.{theirs}") for ours, theirs in names.items()]


def _projection_matrices(names: Projections) -> list[Part]:
    """Matrices of the mixer that are the same there."""
    return _named_parameters({f"{ours}.weight": f"{theirs}.weight" for ours, theirs in names.items()})


def _convolution_matrices(sizes: tuple[int, int, int]) -> list[Part]:
    """The matrix of queries, keys and values, and the taps after it."""
    return [
        Stacked("mixer.w_qkv.weight", tuple(f"attn.{letter}_proj.weight" for letter in "qkv"), sizes),
        ConcatenatedTaps("mixer.conv.weight", tuple(f"attn.{letter}_conv1d.weight" for letter in "qkv"), sizes),
    ]


def _model(values: Values, mixer: Mixer, parts: list[Part], eps: float, ratio: int = 4) -> Foreign:
    """The model around mixers of these settings and tables."""
    sizes = read_sizes(values)
    dim, depth = sizes["dim"], sizes["depth"]
    values.require("hidden_act", "swish", default="swish")
    values.ignore(*KERNELS)
    attention = _attention_in_some(values.optional("attn"), dim)
    hidden = int(dim * (values.optional("hidden_ratio") or ratio) * 2 / 3)
    tied = values.get("tie_word_embeddings", bool, False)
    settings: dict[str, Any] = {
        **sizes,
        "context": values.size("max_position_embeddings", 2048, most=2**24),
        "ffn": values.size("intermediate_size", 256 * ceil(hidden / 256)),
        "position": {"kind": "none"},
        "norm": "rms",
        "norm_eps": eps,
        "activation": "silu",
        "glu": True,
        "ffn_bias": False,
        "tie": tied,
        "mixer": shortest([attention.get(layer, mixer) for layer in range(depth)]),
    }
    around = [Same("norm_1.weight", "attn_norm.weight"), Same("norm_2.weight", "mlp_norm.weight"), *mlp_parts()]
    top: list[Part] = [
        Same("token.weight", "model.embeddings.weight"),
        Same("norm.weight", "model.norm.weight"),
        *([] if tied else [Same("head.weight", "lm_head.weight")]),
    ]
    for layer in range(depth):
        own = attention_parts(attention[layer], dim, "attn") if layer in attention else parts
        top += [part.under(f"layers.{layer}.", f"model.layers.{layer}.") for part in (*around, *own)]
    return Foreign(settings, top, without_weights=r"lm_head\.weight" if tied else r"$^")


def _attention_in_some(given: Any, dim: int) -> dict[int, Mixer]:
    """The attention of the layers that have it, by their number. ValueError for several kinds of it."""
    if given is None:
        return {}
    known = {"layers", "num_heads", "num_kv_heads", "qkv_bias", "window_size", "rope_theta"}
    if not isinstance(given, dict) or not given.keys() <= known or not {"layers", "num_heads"} <= given.keys():
        raise ValueError(f"attn={given!r} is not built: one kind of attention is, of {', '.join(sorted(known))}")
    heads = int(given["num_heads"])
    mixer: Mixer = {
        **{"kind": "attention", "heads": heads, "kv_heads": int(given.get("num_kv_heads") or heads)},
        **{"bias": "qkv" if given.get("qkv_bias") else "none"},
        **{"position": {"kind": "rotary", "base": float(given.get("rope_theta", 10000.0))}},
    }
    if given.get("window_size") is not None:
        mixer["window"] = int(given["window_size"])
    return {int(layer): mixer for layer in given["layers"]}
