"""Attention as Llama and its relatives store it: four projections, perhaps with biases, norms, a window and a gate.

    q_proj k_proj v_proj o_proj     q_norm k_norm     sinks

Source: transformers' LlamaAttention and those that follow it.
"""

from collections.abc import Sequence
from typing import Any

from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers.attention.attention import AttentionConfig
from seqloom.models.foreign.fused_parts import Stacked
from seqloom.models.foreign.parts import Part, Same
from seqloom.models.foreign.values import Values

FULL, SLIDING = "full_attention", "sliding_attention"
Mixer = dict[str, Any]


def read_heads(values: Values, dim: int) -> Mixer:
    """The settings of attention that all of them have. ValueError for sizes that do not fit."""
    heads = values.size("num_attention_heads")
    width = values.size("head_dim", dim // heads)
    mixer: Mixer = {"kind": "attention", "heads": heads, "kv_heads": values.size("num_key_value_heads", heads)}
    return mixer if width * heads == dim else {**mixer, "width": width}


def describe_heads(mixer: AttentionConfig, dim: int) -> dict[str, Any]:
    """The same settings by their names."""
    return {
        "num_attention_heads": mixer.heads,
        "num_key_value_heads": mixer.kv_heads or mixer.heads,
        "head_dim": mixer.head_width(dim),
    }


def require_attention(mixer: MixerConfig, family: str) -> AttentionConfig:
    """The settings as those of attention. ValueError for another kind, which the family has not."""
    if not isinstance(mixer, AttentionConfig):
        raise ValueError(f"{family} has attention in this place, and the model {mixer.kind}")
    return mixer


def with_windows(mixer: Mixer, kinds: Sequence[str], window: int | None) -> Mixer | list[Mixer]:
    """The mixers of the layers, `kinds` of which are full or sliding attention; one where all layers have the same.

    ValueError for other kinds, and where there is no window for those that slide.
    """
    unknown = sorted(set(kinds) - {FULL, SLIDING})
    if unknown:
        raise ValueError(f"layer_types {unknown} are not built: only {FULL} and {SLIDING} are")
    if SLIDING in kinds and window is None:
        raise ValueError(f"layer_types have {SLIDING}, and sliding_window is missing")
    return shortest([{**mixer, "window": window} if kind == SLIDING else mixer for kind in kinds])


def shortest(mixers: list[Mixer]) -> Mixer | list[Mixer]:
    """The shortest list that the layers repeat in order; its only entry where there is one."""
    for period in range(1, len(mixers) + 1):
        if all(mixer == mixers[layer % period] for layer, mixer in enumerate(mixers)):
            return mixers[0] if period == 1 else mixers[:period]
    return mixers


def attention_parts(mixer: Mixer, dim: int, theirs: str = "self_attn") -> list[Part]:
    """The table of one layer's attention, whose names there begin with `theirs`."""
    heads, groups = mixer["heads"], mixer["kv_heads"]
    width = mixer.get("width", dim // heads)
    rows = (heads * width, groups * width, groups * width)
    biases = mixer.get("bias", "none")
    parts: list[Part] = [
        Stacked("mixer.w_qkv.weight", tuple(f"{theirs}.{letter}_proj.weight" for letter in "qkv"), rows),
        Same("mixer.w_out.weight", f"{theirs}.o_proj.weight"),
    ]
    if biases in ("qkv", "all"):
        parts.append(Stacked("mixer.w_qkv.bias", tuple(f"{theirs}.{letter}_proj.bias" for letter in "qkv"), rows))
    if biases in ("out", "all"):
        parts.append(Same("mixer.w_out.bias", f"{theirs}.o_proj.bias"))
    if mixer.get("qk_norm", "none") != "none":
        parts += [Same(f"mixer.norm_{letter}.weight", f"{theirs}.{letter}_norm.weight") for letter in "qk"]
    return parts
