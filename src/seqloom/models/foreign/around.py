"""What is around the mixers of a model whose layers are like Llama's: embedding, norms, SwiGLU, output; both ways.

    model.embed_tokens   model.layers.N   model.norm   lm_head

Source: transformers' LlamaForCausalLM and those that follow it.
"""

from typing import Any

from seqloom.models.decoder import DecoderConfig
from seqloom.models.ffn_kinds import FFNConfig
from seqloom.models.foreign.parts import Part, Same
from seqloom.models.foreign.values import Values

GELU = {"gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu"}
"""their names of activations, and ours"""
ACTIVATIONS = {"silu": "silu", "swish": "silu", **GELU}


def read_around(
    values: Values, position: dict[str, Any], activation: str = "hidden_act", context: int | None = None
) -> dict[str, Any]:
    """Our settings of all but the mixers; `activation` is the name of theirs, `context` is used where none is given."""
    phi = values.require(activation, *ACTIVATIONS, default="silu")
    return {
        **read_sizes(values),
        "context": values.size("max_position_embeddings", context, most=2**24),
        "ffn": values.size("intermediate_size"),
        "position": position,
        "norm": "rms",
        "norm_eps": values.get("rms_norm_eps", float, 1e-6),
        "activation": ACTIVATIONS[phi],
        "glu": True,
        "ffn_bias": False,
        "tie": values.get("tie_word_embeddings", bool, False),
    }


def read_sizes(values: Values, dim: str = "hidden_size", depth: str = "num_hidden_layers") -> dict[str, Any]:
    """Our settings that every decoder of another program has."""
    return {
        "kind": "decoder",
        "vocab": values.size("vocab_size", most=2**24),
        "dim": values.size(dim),
        "depth": values.size(depth, most=4096),
        "dropout": 0.0,
        "embed_scale": False,
        "head_bias": False,
    }


def describe_around(config: DecoderConfig, activation: str = "hidden_act") -> dict[str, Any]:
    """Their settings of all but the mixers. ValueError for a model that has no such layers."""
    ffn = require_ffn(config)
    phi = next((theirs for theirs, ours in ACTIVATIONS.items() if ours == ffn.activation), ffn.activation)
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "max_position_embeddings": config.context,
        "intermediate_size": ffn.width,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie,
        activation: "gelu_pytorch_tanh" if ffn.activation == "gelu_tanh" else phi,
    }


def require_ffn(config: DecoderConfig) -> FFNConfig:
    """The settings of the one feed-forward network of all layers. ValueError where there is none, or are several."""
    ffn = config.ffn
    if not isinstance(ffn, FFNConfig):
        raise ValueError("the family has one feed-forward network for all layers (ffn.kind=ffn)")
    return ffn


def top_parts(tied: bool, centre: float = 0.0, inner: str = "") -> list[Part]:
    """The table of what is outside of the layers; `inner` is the prefix of an output layer inside another."""
    parts: list[Part] = [
        Same("token.weight", "model.embed_tokens.weight"),
        Same("norm.weight", "model.norm.weight", centre),
    ]
    return parts if tied else [*parts, Same(f"head.{inner}weight", "lm_head.weight")]


def mlp_parts(theirs: str = "mlp") -> list[Part]:
    """The table of a layer's SwiGLU, which is called `theirs` there."""
    names = {"w_gate": "gate_proj", "w_1": "up_proj", "w_2": "down_proj"}
    return [Same(f"ffn.{ours}.weight", f"{theirs}.{name}.weight") for ours, name in names.items()]


def without_weights(tied: bool) -> str:
    """The names of theirs that hold nothing learned: angles, and a tied output layer."""
    return r".*rotary_emb\.inv_freq" + (r"|lm_head\.weight" if tied else "")
