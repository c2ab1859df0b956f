"""BERT, which predicts masked tokens from both sides: norms after sums, learned positions, GELU, biases everywhere.

All tokens are of the first segment, whose embedding is added to each position's; so the other is not kept, and BERT is
read and not written back. What predicts the next sentence is left out.

Source: transformers' BertForMaskedLM and its config.
"""

from typing import Any

from seqloom.models.foreign.around import GELU, read_sizes
from seqloom.models.foreign.family import Foreign
from seqloom.models.foreign.fused_parts import Stacked, WithFirstRow
from seqloom.models.foreign.parts import Part, Same, of_layers
from seqloom.models.foreign.values import Values

NORMS = {"norm_1": "attention.output.LayerNorm", "norm_2": "output.LayerNorm"}
LINEAR = {"mixer.w_out": "attention.output.dense", "ffn.w_1": "intermediate.dense", "ffn.w_2": "output.dense"}
TRANSFORM = "cls.predictions.transform"


def bert(values: Values) -> Foreign:
    """A model of type bert. ValueError for one that is a decoder."""
    values.require("is_decoder", False, default=False)
    values.require("add_cross_attention", False, default=False)
    values.require("position_embedding_type", "absolute", default="absolute")
    values.require("tie_word_embeddings", True, default=True)
    values.ignore("type_vocab_size", "gradient_checkpointing")
    sizes = read_sizes(values)
    dim = sizes["dim"]
    settings: dict[str, Any] = {
        **{**sizes, "kind": "encoder", "head_bias": True},
        "context": values.size("max_position_embeddings", most=2**24),
        "ffn": values.size("intermediate_size"),
        "activation": GELU[values.require("hidden_act", *GELU, default="gelu")],
        "position": {"kind": "learned"},
        "norm_eps": values.get("layer_norm_eps", float, 1e-12),
        "norm_place": "after",
        **{"embed_norm": True, "tie": True, "head_layer": True},
        "mixer": {"kind": "attention", "heads": values.size("num_attention_heads"), "bias": "all"},
    }
    embeddings = "bert.embeddings"
    layer: list[Part] = []
    for what in ("weight", "bias"):
        theirs = tuple(f"attention.self.{name}.{what}" for name in ("query", "key", "value"))
        layer.append(Stacked(f"mixer.w_qkv.{what}", theirs, (dim, dim, dim)))
        layer += [Same(f"{ours}.{what}", f"{name}.{what}") for ours, name in {**NORMS, **LINEAR}.items()]
    tables = (f"{embeddings}.position_embeddings.weight", f"{embeddings}.token_type_embeddings.weight")
    top: list[Part] = [
        Same("token.weight", f"{embeddings}.word_embeddings.weight"),
        WithFirstRow("position.table.weight", tables, values.size("type_vocab_size", 2)),
        *_both("embed_norm", f"{embeddings}.LayerNorm"),
        *_both("head_layer.0", f"{TRANSFORM}.dense"),
        *_both("head_layer.2", f"{TRANSFORM}.LayerNorm"),
        Same("head.bias", "cls.predictions.bias"),
    ]
    return Foreign(
        settings,
        top + of_layers(layer, "layers.{}.", "bert.encoder.layer.{}.", sizes["depth"]),
        without_weights=r"cls\.seq_relationship\..*|bert\.pooler\..*|cls\.predictions\.decoder\..*|.*position_ids",
        older={"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"},
    )


def _both(ours: str, theirs: str) -> list[Part]:
    """The lines of a weight and a bias."""
    return [Same(f"{ours}.{name}", f"{theirs}.{name}") for name in ("weight", "bias")]
