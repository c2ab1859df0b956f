"""What a model that looks up in a store is trained with: the tokens that followed the neighbors of each position."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from seqloom.core.model import require_streams
from seqloom.data.prepare import Corpus
from seqloom.retrieval.followed import following_tokens
from seqloom.retrieval.lookup import load_store
from seqloom.runs.layout import find_run, tokenizer_digest
from seqloom.training.config import RunConfig


def require_store(config: RunConfig) -> None:
    """Raises ValueError where a run whose model looks up names no store, or reads rows that no table has."""
    model: Any = config.model
    if not model.store:
        raise ValueError(f"model.kind={model.kind} looks up in a store: set model.store to one of `seqloom knn build`")
    if config.data.packed:
        raise ValueError(f"model.kind={model.kind} reads no packed documents: leave data.packed out")


def with_neighbors(config: RunConfig, corpus: Corpus) -> tuple[RunConfig, Corpus]:
    """The settings with the store's digest, and the corpus with its table (tokens, k), made or opened.

    The store must be of the training text, so that a token is known among its entries and left out of its own
    neighbors. ValueError, in one line, where it is of another text or tokenizer, and where its model reads less far
    than the run.
    """
    model: Any = config.model
    frozen, store = load_store(model.store)
    run, training = store.config.run, config.training
    if find_run(run).settings.get("tokenizer") != tokenizer_digest(corpus.tokenizer.json):
        raise ValueError(
            f"{model.store} is of {run}, which has another tokenizer: add --set data.tokenizer={run}/tokenizer.json"
        )
    if store.config.text != sha256(np.ascontiguousarray(corpus.train.ids).data).hexdigest():
        raise ValueError(
            f"{model.store} is of another text than the {len(corpus.train):,} tokens that the run trains on: build it "
            f"with `seqloom knn build {run}` without --data, and train on the text of {run}"
        )
    longest = frozen.traits.longest
    carries = training.memory == "carry"
    if carries:
        require_streams(frozen, "look up for a model with training.memory=carry")
    if longest is not None and (carries or longest < model.context):
        reason = "with training.memory=carry a model reads on" if carries else f"the run's context is {model.context:,}"
        raise ValueError(
            f"the model of {model.store} reads at most {longest:,} tokens, and {reason}: "
            "choose a store of another model"
        )
    table = following_tokens(store, model.k)
    with_digest = model.model_copy(update={"digest": store.config.digest})
    return config.model_copy(update={"model": with_digest}), replace(corpus, neighbors=table)
