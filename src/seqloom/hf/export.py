"""`seqloom export hf`: a run as a folder that `from_pretrained` reads, with its tokenizer.

    config.json  model.safetensors  generation_config.json  tokenizer.json  tokenizer_config.json  modeling_seqloom.py

The last one is for `trust_remote_code=True`, without which one writes `import seqloom.hf` first: it imports this
package, and transformers says what to install where that is missing.
"""

from pathlib import Path

import tokenizers
from transformers import PreTrainedTokenizerFast

from seqloom.core.model import Model
from seqloom.data.tokenizer import Tokenizer
from seqloom.hf.register import wrap
from seqloom.runs.durable import making_folder

SHIM = "modeling_seqloom"
SHIM_TEXT = '''"""Imports the model's classes from the package seqloom, which must be installed."""

from seqloom.hf import {names}
'''
AUTO_CLASSES = {
    "SeqloomForCausalLM": "AutoModelForCausalLM",
    "SeqloomForMaskedLM": "AutoModelForMaskedLM",
    "SeqloomForSeq2SeqLM": "AutoModelForSeq2SeqLM",
    "SeqloomForSequenceClassification": "AutoModelForSequenceClassification",
}


def fast_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer as one of transformers. Its end token also pads, on the left, since `generate` reads on."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.json)
    end = tokenizer.names[tokenizer.eos]
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=end, eos_token=end, pad_token=end, padding_side="left"
    )


def export(model: Model, folder: str | Path) -> Path:
    """Writes the folder, completely or not at all, and returns it.

    ValueError where the folder has content, or the kind of model has no wrapper.
    """
    wrapper = wrap(model)
    name = type(wrapper).__name__
    wrapper.config.auto_map = {"AutoConfig": f"{SHIM}.SeqloomConfig", AUTO_CLASSES[name]: f"{SHIM}.{name}"}
    with making_folder(Path(folder)) as temporary:
        wrapper.save_pretrained(temporary)
        (temporary / f"{SHIM}.py").write_text(SHIM_TEXT.format(names=f"SeqloomConfig, {name}"))
        if model.tokenizer is not None:
            fast_tokenizer(model.tokenizer).save_pretrained(temporary)
    return Path(folder)
