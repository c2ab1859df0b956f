"""A swapped Qwen3 whose mixers are all `gated_delta` as a Qwen3-Next of transformers, which needs no seqloom.

Qwen3-Next's layers are Qwen3's, with attention in some of them and the gated delta rule in the others. What differs is
written into the weights: its norms multiply by 1 + w; its attention has a gate, σ(x W) = ½ for W = 0, and an output
projection of twice Qwen3's. It is exact where the norm inside of the mixer has Qwen3's ε and no projection has a bias.

Source: transformers' Qwen3NextForCausalLM with `num_experts=0`.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen3NextConfig, Qwen3NextForCausalLM

from seqloom.hf.swap.config import MODEL_TYPE

MIXER = "self_attn.mixer."
SHARED = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("intermediate_size", "rms_norm_eps", "max_position_embeddings", "hidden_act", "tie_word_embeddings"),
    *("pad_token_id", "bos_token_id", "eos_token_id"),
)
"""settings that both have"""


def as_qwen3_next(model: PreTrainedModel) -> Qwen3NextForCausalLM:
    """The same model, with copies of the weights. ValueError, in one line, where it is none exactly."""
    config: Any = model.config
    settings = _mixer_settings(config)
    swapped = config.seqloom_swap["layers"]
    next_config = Qwen3NextConfig(
        **{name: getattr(config, name) for name in SHARED},
        num_experts=0,
        layer_types=[
            "linear_attention" if str(number) in swapped else "full_attention"
            for number in range(config.num_hidden_layers)
        ],
        linear_num_key_heads=settings["heads"],
        linear_num_value_heads=settings["value_heads"] or settings["heads"],
        linear_key_head_dim=settings["key_width"],
        linear_value_head_dim=settings["value_width"],
        linear_conv_kernel_dim=settings["kernel"],
        rope_parameters={**config.rope_parameters, "partial_rotary_factor": 1.0},
    )
    other = Qwen3NextForCausalLM(next_config).to(model.device, model.dtype).train(model.training)
    other.load_state_dict(_weights(model.state_dict(), next_config))
    return other


def _mixer_settings(config: Any) -> dict[str, Any]:
    """The settings that all mixers have. ValueError where Qwen3-Next has no such model."""
    swapped = getattr(config, MODEL_TYPE, None)
    if not swapped or swapped["base"] != "qwen3":
        raise ValueError("only a Qwen3 whose attention was replaced can be a Qwen3-Next")
    settings = list(swapped["layers"].values())
    first: dict[str, Any] = settings[0]
    if any(other != first for other in settings) or first["kind"] != "gated_delta" or first["negative"]:
        raise ValueError("a Qwen3-Next has gated_delta of one kind, and β up to 1, in every replaced layer")
    if len(settings) == config.num_hidden_layers:
        raise ValueError("transformers cannot generate with a Qwen3-Next without attention: keep it in a layer or more")
    if first["norm_eps"] != config.rms_norm_eps:
        raise ValueError(
            f"the norms of a Qwen3-Next have one ε, and Qwen3's is {config.rms_norm_eps:g}: swap with "
            f"gated_delta:norm_eps={config.rms_norm_eps:g}"
        )
    if config.attention_bias or config.use_sliding_window:
        raise ValueError("a Qwen3-Next has no biases and no windows, and this Qwen3 has some")
    return first


def _weights(ours: dict[str, Tensor], config: Qwen3NextConfig) -> dict[str, Tensor]:
    """The weights by their names there."""
    weights: dict[str, Tensor] = {}
    mixers: dict[str, dict[str, Tensor]] = {}
    for name, tensor in ours.items():
        layer, inside, of_mixer = name.partition(MIXER)
        if inside:
            mixers.setdefault(layer, {})[of_mixer] = tensor
        else:
            weights[name] = _outside(name, tensor, config)
    for layer, mixer in mixers.items():
        weights |= {f"{layer}linear_attn.{name}": tensor for name, tensor in _linear_attention(mixer, config).items()}
    return weights


def _outside(name: str, tensor: Tensor, config: Qwen3NextConfig) -> Tensor:
    """A weight that is not of a mixer."""
    if name.endswith("norm.weight"):
        return tensor - 1
    if name.endswith("self_attn.q_proj.weight"):
        heads = tensor.unflatten(0, (config.num_attention_heads, -1))
        return torch.cat([heads, torch.zeros_like(heads)], 1).flatten(0, 1)
    return 2 * tensor if name.endswith("self_attn.o_proj.weight") else tensor


def _linear_attention(mixer: dict[str, Tensor], config: Qwen3NextConfig) -> dict[str, Tensor]:
    """The weights of one mixer: rows of queries, keys, values and gates stand together for each head of keys."""
    groups = config.linear_num_key_heads
    keys = groups * config.linear_key_head_dim
    values = config.linear_num_value_heads * config.linear_value_head_dim
    q, k, v = mixer["w_qkv.weight"].split([keys, keys, values])
    return {
        "in_proj_qkvz.weight": _interleave([q, k, v, mixer["w_g.weight"]], groups),
        "in_proj_ba.weight": _interleave([mixer["w_b.weight"], mixer["w_a.weight"]], groups),
        "conv1d.weight": mixer["conv.weight"].flip(0).T[:, None].contiguous(),  # (C, 1, W), the latest input last
        "A_log": mixer["a_log"],
        "dt_bias": mixer["w_a.bias"],
        "norm.weight": mixer["norm.weight"],
        "out_proj.weight": mixer["w_o.weight"],
    }


def _interleave(parts: list[Tensor], groups: int) -> Tensor:
    """Matrices whose rows are divided into `groups`, one group of each after the other."""
    return torch.cat([part.unflatten(0, (groups, -1)) for part in parts], 1).flatten(0, 1)
