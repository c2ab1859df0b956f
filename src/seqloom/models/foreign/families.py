"""The families of transformers that are read: `model_type` of a config.json → what reads it."""

from seqloom.models.foreign.family import Foreign, Reader
from seqloom.models.foreign.gpt2 import gpt2, gpt_neox
from seqloom.models.foreign.llama import llama, mistral, qwen2, qwen3
from seqloom.models.foreign.mamba import mamba, mamba2
from seqloom.models.foreign.parts import Same
from seqloom.models.foreign.values import Values
from seqloom.models.kinds import model_config


def seqloom(values: Values) -> Foreign:
    """A model of ours that `seqloom export hf` or `seqloom.hf` wrote."""
    values.ignore("vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "tie_word_embeddings")
    settings = values.get("settings", dict)
    names = model_config(settings).tensors()
    return Foreign(settings, [Same(name, f"model.{name}") for name in names])


FAMILIES: dict[str, Reader] = {
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "mamba": mamba,
    "mamba2": mamba2,
    "mistral": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "seqloom": seqloom,
}
