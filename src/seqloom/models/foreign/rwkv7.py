"""RWKV-7 as flash-linear-attention stores it: time mixing and channel mixing, each after a layer norm.

Source: fla/models/rwkv7 and fla/layers/rwkv7.py of flash-linear-attention, at commit bc3b101d. Its fused kernel adds
1e-6 to the square of a key's length, which RWKV-7 as published does not.
"""

from seqloom.models.foreign.around import read_sizes
from seqloom.models.foreign.attention import Mixer
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fla import KERNELS
from seqloom.models.foreign.fused_parts import Vectors
from seqloom.models.foreign.parts import Part, Same, of_layers
from seqloom.models.foreign.values import Values

THIN = {"decay": "w_lora", "rate": "a_lora", "gate": "g_lora", "value": "v_lora"}
RANKS = {
    **{"decay_rank": ("decay_low_rank_dim", 64), "rate_rank": ("a_low_rank_dim", 64)},
    **{"value_rank": ("v_low_rank_dim", 16), "gate_rank": ("gate_low_rank_dim", 128)},
}


def rwkv7(values: Values) -> Foreign:
    """A model of type rwkv7."""
    sizes = read_sizes(values)
    dim, depth = sizes["dim"], sizes["depth"]
    width = values.optional("head_dim") or dim // values.size("num_heads", 1)
    heads = dim // int(width)
    values.require("num_heads", heads, default=heads)
    values.require("hidden_act", "sqrelu", default="sqrelu")
    values.require("norm_bias", True, default=True)
    values.require("norm_first", True, default=True)
    values.require("norm_eps", 1e-5, default=1e-5)  # that of the heads' norm, times their width
    values.require("value_dim", None, dim, [dim] * depth)
    values.require("attn", None)
    ratio = values.optional("hidden_ratio") or 4
    values.ignore(*KERNELS)
    mixer: Mixer = {"kind": "rwkv7", "heads": heads}
    mixer |= {ours: values.size(theirs, default) for ours, (theirs, default) in RANKS.items()}
    tied = values.get("tie_word_embeddings", bool, False)
    settings = {
        **sizes,
        "context": values.size("max_position_embeddings", 2048, most=2**24),
        "ffn": values.size("intermediate_size", 32 * ((int(dim * ratio) + 31) // 32)),
        "channel": "channel_mix7",
        "position": {"kind": "none"},
        "embed_norm": True,
        "tie": tied,
        "mixer": mixer,
    }
    parts: list[Part] = [
        Same("token.weight", "model.embeddings.weight"),
        *_both("embed_norm", "model.layers.0.pre_norm"),
        *_both("norm", "model.norm"),
        *([] if tied else [Same("head.weight", "lm_head.weight")]),
        *of_layers(_layer(), "layers.{}.", "model.layers.{}.", depth),
    ]
    for layer in range(1, depth):
        parts += [part.under(f"layers.{layer}.", f"model.layers.{layer}.") for part in _thin("value")]
    return Foreign(settings, parts, without_weights=r"lm_head\.weight" if tied else r"$^")


def _layer() -> list[Part]:
    """The table of a layer but for the share of the first layer's values, which the first has not."""
    names = {"w_r": "r_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "o_proj"}
    vectors = {"erased": "k_k", "replaced": "k_a", "gain": "g_norm.weight", "shift": "g_norm.bias", "bonus": "r_k"}
    return [
        *_both("norm_1", "attn_norm"),
        *_both("norm_2", "ffn_norm"),
        Vectors("mixer.mu", tuple(f"attn.x_{letter}" for letter in "rwkvag")),
        *(Same(f"mixer.{ours}.weight", f"attn.{theirs}.weight") for ours, theirs in names.items()),
        *(Same(f"mixer.{ours}", f"attn.{theirs}") for ours, theirs in vectors.items()),
        *(part for name in ("decay", "rate", "gate") for part in _thin(name)),
        Same("channel_mix7.mu", "ffn.x_k"),
        Same("channel_mix7.w_k.weight", "ffn.key.weight"),
        Same("channel_mix7.w_v.weight", "ffn.value.weight"),
    ]


def _thin(name: str) -> list[Part]:
    """The two factors of a matrix of low rank, and the bias, which the gate has not."""
    theirs = f"attn.{THIN[name]}.lora"
    factors: list[Part] = [
        Same(f"mixer.thin_in.{name}.weight", f"{theirs}.0.weight"),
        Same(f"mixer.thin_out.{name}.weight", f"{theirs}.2.weight"),
    ]
    return factors if name == "gate" else [*factors, Same(f"mixer.thin_out.{name}.bias", f"{theirs}.2.bias")]


def _both(ours: str, theirs: str) -> list[Part]:
    """The gain and the bias of a layer norm."""
    return [Same(f"{ours}.{name}", f"{theirs}.{name}") for name in ("weight", "bias")]
