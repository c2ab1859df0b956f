"""The families of transformers that are read, and written back: `model_type` of a config.json → what knows it.

A family that is not here is refused by its name, with the reason where `NOT_BUILT` has one.
"""

from seqloom.models.foreign.bert import bert
from seqloom.models.foreign.delta_hybrids import olmo_hybrid, qwen3_next
from seqloom.models.foreign.family import Family, Foreign
from seqloom.models.foreign.fla import delta_net, gated_deltanet, gla, hgrn2, kda, retnet
from seqloom.models.foreign.gemma import describe_gemma, describe_gemma2, gemma, gemma2
from seqloom.models.foreign.gpt2 import describe_gpt2, describe_gpt_neox, gpt2, gpt_neox
from seqloom.models.foreign.hybrids import bamba, recurrent_gemma
from seqloom.models.foreign.llama import (
    describe_llama,
    describe_mistral,
    describe_qwen,
    llama,
    mistral,
    olmo2,
    qwen2,
    qwen3,
)
from seqloom.models.foreign.mamba import describe_mamba, describe_mamba2, mamba, mamba2, state_spaces
from seqloom.models.foreign.parts import Same
from seqloom.models.foreign.rwkv import describe_rwkv, rwkv, rwkv4_pth, rwkv7_pth
from seqloom.models.foreign.rwkv7 import rwkv7
from seqloom.models.foreign.values import Values
from seqloom.models.kinds import model_config


def seqloom(values: Values) -> Foreign:
    """A model of ours that `seqloom export hf` or `seqloom.hf` wrote."""
    values.ignore("vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "tie_word_embeddings")
    settings = values.get("settings", dict)
    names = model_config(settings).tensors()
    return Foreign(settings, [Same(name, f"model.{name}") for name in names])


NO_HYBRIDS = "attention in some layers"
FAMILIES: dict[str, Family] = {
    "llama": Family(
        "Llama 1, 2, 3, 3.1 and 3.2, TinyLlama, SmolLM, SmolLM2",
        llama,
        describe_llama,
        "LlamaForCausalLM",
        "rotary positions that depend on the text (`yarn`, `dynamic`)",
    ),
    "mistral": Family("Mistral, with its window", mistral, describe_mistral, "MistralForCausalLM"),
    "qwen2": Family("Qwen2, Qwen2.5", qwen2, describe_qwen, "Qwen2ForCausalLM"),
    "qwen3": Family("Qwen3", qwen3, describe_qwen, "Qwen3ForCausalLM"),
    "olmo2": Family("OLMo 2", olmo2, describe_llama, "Olmo2ForCausalLM"),
    "gemma": Family("Gemma", gemma, describe_gemma, "GemmaForCausalLM"),
    "gemma2": Family("Gemma 2", gemma2, describe_gemma2, "Gemma2ForCausalLM"),
    "gpt2": Family("GPT-2, DistilGPT-2", gpt2, describe_gpt2, "GPT2LMHeadModel"),
    "gpt_neox": Family("Pythia, GPT-NeoX", gpt_neox, describe_gpt_neox, "GPTNeoXForCausalLM"),
    "mamba": Family(
        "Mamba as transformers stores it", mamba, describe_mamba, "MambaForCausalLM", "biases of projections"
    ),
    "mamba2": Family(
        "Mamba-2 as transformers stores it",
        mamba2,
        describe_mamba2,
        "Mamba2ForCausalLM",
        "biases of projections; limits of steps",
    ),
    "qwen3_next": Family("Qwen3-Next without experts", qwen3_next, refused="mixtures of experts"),
    "bamba": Family("Bamba", bamba, refused="biases of projections; limits of steps"),
    "olmo_hybrid": Family("OLMo hybrid", olmo_hybrid, refused="convolutions that transformers saved in equal parts"),
    "bert": Family("BERT, an encoder (masked tokens)", bert, refused="a decoder; relative positions", one_way=True),
    "recurrent_gemma": Family("RecurrentGemma (Griffin)", recurrent_gemma, refused="biases of queries, keys, values"),
    "gated_deltanet": Family("Gated DeltaNet of fla, with attention in some layers", gated_deltanet),
    "delta_net": Family("DeltaNet of fla, with attention in some layers", delta_net),
    "kda": Family("Kimi Delta Attention of fla", kda, refused="safe gates; grouped heads"),
    "gla": Family("gated linear attention of fla", gla, refused="feature maps; convolutions"),
    "retnet": Family("RetNet of fla", retnet, refused="feature maps; convolutions"),
    "hgrn2": Family("HGRN2 of fla", hgrn2, refused=f"{NO_HYBRIDS}; convolutions; wider keys"),
    "rwkv7": Family("RWKV-7 of fla", rwkv7, refused=f"{NO_HYBRIDS}; wider values; another ε"),
    "state_spaces": Family(
        "Mamba and Mamba-2 of state-spaces", state_spaces, refused="attention in some layers", pickled="*.bin"
    ),
    "rwkv": Family("RWKV-4 as transformers stores it", rwkv, describe_rwkv, "RwkvForCausalLM"),
    "rwkv4_pth": Family("RWKV-4 of its authors (a .pth in a folder)", rwkv4_pth, pickled="*.pth"),
    "rwkv7_pth": Family("RWKV-7 of its authors (a .pth in a folder)", rwkv7_pth, pickled="*.pth"),
    "seqloom": Family("what `seqloom export hf` wrote", seqloom),
}
NOT_BUILT: dict[str, str] = {
    "gpt_oss": "mixtures of experts are not built",
    "mixtral": "mixtures of experts are not built",
    "qwen2_moe": "mixtures of experts are not built",
    "qwen3_moe": "mixtures of experts are not built",
    "olmoe": "mixtures of experts are not built",
    "deepseek_v3": "mixtures of experts are not built",
    "gemma3n": "shared keys are not built",
    "gemma3": "two bases of rotary positions in one model are not built",
    "gemma3_text": "two bases of rotary positions in one model are not built",
    "jamba": "norms of the steps and mixtures of experts are not built",
    "falcon_mamba": "norms of B, C and the steps are not built",
    "phi3": "fused gates of another order are not built",
    "bloom": "a norm of the embeddings with ALiBi is not built",
}
"""families that a reader may ask for, and what they lack here"""
