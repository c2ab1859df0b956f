"""RWKV-4 as transformers stores it, and RWKV-4 and RWKV-7 as their authors' .pth files do, which have no config.json.

    rwkv                  transformers' RwkvForCausalLM
    rwkv4_pth  rwkv7_pth  blocks.N.att and blocks.N.ffn; all sizes follow from shapes

Source: transformers' RwkvForCausalLM; the names in BlinkDL's RWKV-LM, of RWKV-4 and of RWKV-7 (x070).
"""

from collections.abc import Mapping
from typing import Any

from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.around import read_sizes
from seqloom.models.foreign.attention import Mixer
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fused_parts import Vectors
from seqloom.models.foreign.parts import Flat, Part, Same, Transposed, of_layers
from seqloom.models.foreign.values import Values

Shapes = Mapping[str, tuple[int, ...]]
TIME, CHANNEL = {"r": "receptance", "k": "key", "v": "value", "out": "output"}, {"r": "receptance", "k": "key"}
THIN = {"decay": "w", "rate": "a", "gate": "g", "value": "v"}


def rwkv(values: Values) -> Foreign:
    """A model of type rwkv."""
    sizes = read_sizes(values)
    values.require("attention_hidden_size", None, sizes["dim"])
    values.require("layer_norm_epsilon", 1e-5, default=1e-5)  # the last norm has no other
    values.require("tie_word_embeddings", False, default=False)
    values.ignore("rescale_every")  # powers of two against overflow, which cancel but for the norms' ε
    context = values.size("context_length", 1024, most=2**24)
    width = values.size("intermediate_size", 4 * sizes["dim"])
    names = ("rwkv.embeddings", "rwkv.ln_out", "rwkv.blocks.{}.", "pre_ln")
    mix = {"r": "time_mix_receptance", "k": "time_mix_key", "v": "time_mix_value"}
    return _rwkv4(sizes, context, width, names, ("attention", "feed_forward"), mix)


def describe_rwkv(config: DecoderConfig) -> dict[str, Any]:
    """The config.json of a model of type rwkv."""
    if config.mixers[0].kind != "rwkv":
        raise ValueError(f"rwkv has the mixer rwkv, and the model {config.mixers[0].kind}")
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "context_length": config.context,
        "intermediate_size": config.ffn_width,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tie,
    }


def rwkv4_pth(values: Values) -> Foreign:
    """An RWKV-4 of its authors, with the settings that `settings_of` finds."""
    sizes, width = read_sizes(values), values.size("intermediate_size")
    mix = {letter: f"time_mix_{letter}" for letter in "rkv"}
    return _rwkv4(sizes, 1024, width, ("emb", "ln_out", "blocks.{}.", "ln0"), ("att", "ffn"), mix)


def rwkv7_pth(values: Values) -> Foreign:
    """An RWKV-7 of its authors, with the settings that `settings_of` finds."""
    sizes = read_sizes(values)
    mixer: Mixer = {"kind": "rwkv7", "heads": values.size("num_attention_heads")}
    mixer |= {f"{name}_rank": values.size(f"{name}_rank") for name in THIN}
    parts = [
        *_both("norm_1", "ln1"),
        *_both("norm_2", "ln2"),
        Vectors("mixer.mu", tuple(f"att.x_{letter}" for letter in "rwkvag")),
        *(
            Same(f"mixer.w_{ours}.weight", f"att.{TIME[theirs]}.weight")
            for ours, theirs in zip("rkvo", TIME, strict=True)
        ),
        *(Flat(f"mixer.{ours}", f"att.{theirs}") for ours, theirs in {"erased": "k_k", "replaced": "k_a"}.items()),
        Same("mixer.bonus", "att.r_k"),
        Same("mixer.gain", "att.ln_x.weight"),
        Same("mixer.shift", "att.ln_x.bias"),
        *(part for name in ("decay", "rate", "gate") for part in _thin(name)),
        Flat("channel_mix7.mu", "ffn.x_k"),
        Same("channel_mix7.w_k.weight", "ffn.key.weight"),
        Same("channel_mix7.w_v.weight", "ffn.value.weight"),
    ]
    names = ("emb", "ln_out", "blocks.{}.", "ln0")
    foreign = _around(sizes, 4096, values.size("intermediate_size"), "channel_mix7", mixer, names, parts)
    for layer in range(1, sizes["depth"]):
        foreign.parts.extend(part.under(f"layers.{layer}.", f"blocks.{layer}.") for part in _thin("value"))
    return foreign


def settings_of(shapes: Shapes) -> dict[str, Any]:
    """The settings of a .pth file, as a config.json would have them. ValueError where it is of no RWKV-4 or RWKV-7."""
    if "emb.weight" not in shapes or "blocks.0.ffn.key.weight" not in shapes:
        raise ValueError("its tensors are not those of an RWKV, and only RWKV-4 and RWKV-7 are read from such a file")
    vocab, dim = shapes["emb.weight"]
    settings = {
        "vocab_size": vocab,
        "hidden_size": dim,
        "num_hidden_layers": sum(name.endswith(".ln1.weight") for name in shapes),
        "intermediate_size": shapes["blocks.0.ffn.key.weight"][0],
    }
    if "blocks.0.att.time_mix_k" in shapes and len(shapes.get("blocks.0.att.time_decay", ())) == 1:
        return {"model_type": "rwkv4_pth", **settings}
    if "blocks.0.att.x_r" not in shapes or "blocks.0.att.r_k" not in shapes:
        raise ValueError("it is an RWKV-5 or RWKV-6, which are not built; RWKV-4 and RWKV-7 are")
    ranks = {f"{name}_rank": shapes[f"blocks.0.att.{letter}1"][1] for name, letter in THIN.items() if name != "value"}
    ranks["value_rank"] = shapes.get("blocks.1.att.v1", (0, 1))[1]
    return {"model_type": "rwkv7_pth", "num_attention_heads": shapes["blocks.0.att.r_k"][0], **settings, **ranks}


def _rwkv4(
    sizes: dict[str, Any],
    context: int,
    width: int,
    names: tuple[str, str, str, str],
    sublayers: tuple[str, str],
    mix: dict[str, str],
) -> Foreign:
    """The model, given the names of what is around the layers, of a layer's sublayers, and of the shares of tokens."""
    time, channel = sublayers
    parts = [
        *_both("norm_1", "ln1"),
        *_both("norm_2", "ln2"),
        *(Same(f"mixer.w_{ours}.weight", f"{time}.{theirs}.weight") for ours, theirs in TIME.items()),
        *(Flat(f"mixer.mu_{ours}", f"{time}.{theirs}") for ours, theirs in mix.items()),
        Same("mixer.log_rate", f"{time}.time_decay"),
        Same("mixer.bonus", f"{time}.time_first"),
        *(Same(f"channel_mix.w_{ours}.weight", f"{channel}.{TIME[ours]}.weight") for ours in "rkv"),
        *(Flat(f"channel_mix.mu_{ours}", f"{channel}.{mix[ours]}") for ours in "rk"),
    ]
    return _around(sizes, context, width, "channel_mix", {"kind": "rwkv"}, names, parts)


def _around(
    sizes: dict[str, Any],
    context: int,
    width: int,
    channel: str,
    mixer: Mixer,
    names: tuple[str, str, str, str],
    layer: list[Part],
) -> Foreign:
    """The model of these layers: an embedding, its norm, layers, a norm and an output layer."""
    embedding, last, layers, first = names
    settings = {
        **{**sizes, "context": context, "ffn": width, "channel": channel},
        **{"position": {"kind": "none"}, "embed_norm": True, "mixer": mixer},
    }
    parts: list[Part] = [
        Same("token.weight", f"{embedding}.weight"),
        *_both("embed_norm", layers.format(0) + first),
        *_both("norm", last),
        Same("head.weight", "head.weight"),
        *of_layers(layer, "layers.{}.", layers, sizes["depth"]),
    ]
    return Foreign(settings, parts)


def _thin(name: str) -> list[Part]:
    """The two factors of a matrix of low rank, and the bias, which the gate has not."""
    letter = THIN[name]
    factors: list[Part] = [
        Transposed(f"mixer.thin_in.{name}.weight", f"att.{letter}1"),
        Transposed(f"mixer.thin_out.{name}.weight", f"att.{letter}2"),
    ]
    return factors if name == "gate" else [*factors, Flat(f"mixer.thin_out.{name}.bias", f"att.{letter}0")]


def _both(ours: str, theirs: str) -> list[Part]:
    """The gain and the bias of a layer norm."""
    return [Same(f"{ours}.{name}", f"{theirs}.{name}") for name in ("weight", "bias")]
