"""seqloom's models in `transformers`: `import seqloom.hf` registers them with its Auto classes.

    wrap(model)                                  a model of seqloom as one of transformers, with the same weights
    seqloom.swap(model, {1: "gated_delta"})      a model of transformers with attention replaced in some layers
    load(folder)                                 reads what `save_pretrained` and `seqloom export hf` wrote
    AutoModelForCausalLM.from_pretrained(…)      does so too
    as_bamba(model), as_qwen3_next(model)        a swapped Llama or Qwen3 as an architecture of transformers
    model.generate(…), pipeline, Trainer         as with any model of transformers
    Trainer(…, callbacks=[AfterUpdate()])        for mixers that change something between steps, as `performer` does

Nothing else in seqloom imports transformers. ImportError, which says what to install, where it is missing.
"""

try:
    import transformers as _transformers
except ImportError:
    raise ImportError("seqloom.hf needs transformers 5.23 or newer: pip install 'seqloom[hf]'") from None

from seqloom.hf.after_update import AfterUpdate
from seqloom.hf.cache import StateLayer, state_cache
from seqloom.hf.causal_lm import SeqloomForCausalLM
from seqloom.hf.config import SeqloomConfig
from seqloom.hf.export import export, fast_tokenizer
from seqloom.hf.load import load
from seqloom.hf.masked_lm import SeqloomForMaskedLM
from seqloom.hf.register import register, wrap
from seqloom.hf.seq2seq_lm import SeqloomForSeq2SeqLM
from seqloom.hf.sequence_classification import SeqloomForSequenceClassification
from seqloom.hf.swap.bamba import as_bamba
from seqloom.hf.swap.qwen3_next import as_qwen3_next

__all__ = [
    "AfterUpdate",
    "SeqloomConfig",
    "SeqloomForCausalLM",
    "SeqloomForMaskedLM",
    "SeqloomForSeq2SeqLM",
    "SeqloomForSequenceClassification",
    "StateLayer",
    "as_bamba",
    "as_qwen3_next",
    "export",
    "fast_tokenizer",
    "load",
    "state_cache",
    "wrap",
]
del _transformers
register()
