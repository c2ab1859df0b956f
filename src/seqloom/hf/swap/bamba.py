"""A swapped Llama whose mixers are all `mamba2` as a Bamba of transformers, which needs no seqloom.

Bamba's layers are Llama's, with attention in some of them and Mamba-2 in the others. It is exact where the norm inside
of the mixer has Llama's ε, no projection has a bias, and rotary positions turn whole heads.

Source: transformers' BambaForCausalLM, whose `partial_rotary_factor` of 0.5 is a default.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import BambaConfig, BambaForCausalLM, PreTrainedModel

from seqloom.hf.swap.config import MODEL_TYPE

NAMES = {
    "post_attention_layernorm.": "pre_ff_layernorm.",
    "mlp.": "feed_forward.",
    "self_attn.mixer.w_in.": "mamba.in_proj.",
    "self_attn.mixer.w_out.": "mamba.out_proj.",
    "self_attn.mixer.conv.": "mamba.conv1d.",
    "self_attn.mixer.norm.": "mamba.norm.",
    "self_attn.mixer.a_log": "mamba.A_log",
    "self_attn.mixer.step_bias": "mamba.dt_bias",
    "self_attn.mixer.d": "mamba.D",
}
"""the beginning of a name in a layer, ours and theirs"""
SHARED = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("intermediate_size", "rms_norm_eps", "max_position_embeddings", "hidden_act", "tie_word_embeddings"),
    *("pad_token_id", "bos_token_id", "eos_token_id"),
)
"""settings that both have"""


def as_bamba(model: PreTrainedModel) -> BambaForCausalLM:
    """The same model, with copies of the weights. ValueError, in one line, where it is none exactly."""
    config: Any = model.config
    settings = _mixer_settings(config)
    dim = config.hidden_size
    inner = settings["expand"] * dim
    bamba = BambaConfig(
        **{name: getattr(config, name) for name in SHARED},
        attn_layer_indices=[n for n in range(config.num_hidden_layers) if str(n) not in config.seqloom_swap["layers"]],
        mamba_n_heads=inner // settings["head_width"],
        mamba_d_head=settings["head_width"],
        mamba_n_groups=settings["groups"],
        mamba_d_state=settings["state_dim"],
        mamba_d_conv=settings["kernel"],
        mamba_expand=settings["expand"],
        rope_parameters={**config.rope_parameters, "partial_rotary_factor": 1.0},
    )
    other = BambaForCausalLM(bamba).to(model.device, model.dtype).train(model.training)
    weights = dict(_translate(name, tensor) for name, tensor in model.state_dict().items())
    other.load_state_dict(weights)
    return other


def _mixer_settings(config: Any) -> dict[str, Any]:
    """The settings that all mixers have. ValueError where Bamba has no such model."""
    swapped = getattr(config, MODEL_TYPE, None)
    if not swapped or swapped["base"] != "llama":
        raise ValueError("only a Llama whose attention was replaced can be a Bamba")
    settings = list(swapped["layers"].values())
    first: dict[str, Any] = settings[0]
    if any(other != first for other in settings) or first["kind"] != "mamba2":
        raise ValueError("a Bamba has mamba2 of one kind in every replaced layer: swap with one choice of settings")
    if len(settings) == config.num_hidden_layers:
        raise ValueError("transformers cannot generate with a Bamba without attention: keep it in one layer or more")
    if first["norm_eps"] != config.rms_norm_eps:
        raise ValueError(
            f"the norms of a Bamba have one ε, and Llama's is {config.rms_norm_eps:g}: swap with "
            f"mamba2:norm_eps={config.rms_norm_eps:g}"
        )
    if config.attention_bias or config.mlp_bias:
        raise ValueError("a Bamba has no biases of projections, and this Llama has some")
    return first


def _translate(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    """A weight and its name, theirs for ours."""
    if name.startswith("model.norm."):
        return name.replace("model.norm.", "model.final_layernorm."), tensor
    for ours, theirs in NAMES.items():
        name = name.replace(f".{ours}", f".{theirs}")
    if name.endswith("mamba.conv1d.weight"):
        tensor = tensor.flip(0).T[:, None].contiguous()  # taps (W, C), the latest first → (C, 1, W), the latest last
    if name.endswith("mamba.norm.weight"):
        tensor = torch.flatten(tensor)
    return name, tensor
