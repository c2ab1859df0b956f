"""What a run starts from: its text, its model and objective, and its identity."""

from typing import Any

import torch

from seqloom.core.device import choose_device
from seqloom.core.model import Model
from seqloom.core.objective import Objective
from seqloom.data.prepare import Corpus
from seqloom.data.tokens import Tokens
from seqloom.retrieval.lookup import attach
from seqloom.training.config import RunConfig, TrainConfig
from seqloom.training.neighbors import require_store, with_neighbors
from seqloom.training.objectives.carried import CarriedNextToken
from seqloom.training.objectives.config import Prepared
from seqloom.training.objectives.neighbors import WithNeighbors, positions
from seqloom.training.pieces import InPieces
from seqloom.training.step import Learner
from seqloom.training.vectors import vectors_of, with_vectors


def prepare_run(config: RunConfig) -> Prepared:
    """The run's settings with the actual size of the vocabulary, and its tokenized text where the objective reads one.

    ValueError, before the text is read, where a model of these settings would not fit into the memory, or the file of
    vectors or the store that it looks up in does not fit the model.
    """
    file = vectors_of(config)
    if config.model.looks_up:
        require_store(config)
    config, corpus = config.training.objective.prepare(config)
    if file is not None and corpus is not None:
        corpus = with_vectors(corpus, file, config.training.seed)
    if config.model.looks_up and corpus is not None:
        config, corpus = with_neighbors(config, corpus)
    return Prepared(config, corpus)


def with_corpus(config: RunConfig, corpus: Corpus) -> RunConfig:
    """The settings with what follows from a corpus: the vocabulary, and labels where its examples have them."""
    return config.training.objective.with_corpus(config, corpus)


def with_text(config: RunConfig) -> tuple[RunConfig, Corpus]:
    """As `prepare_run`, for those who need a text. ValueError where the objective reads none."""
    config, corpus = prepare_run(config)
    if corpus is None:
        raise ValueError(f"training.objective.kind={config.training.objective.kind} reads no text: choose another")
    return config, corpus


def learner_of(config: RunConfig, corpus: Corpus | None) -> Learner:
    """The model and the objective of a run, freshly initialized from its seed, on its device."""
    training = config.training
    torch.manual_seed(training.seed)
    learner = build(config, corpus)
    if corpus is not None and corpus.vectors is not None:
        learner.model.take_vectors(torch.from_numpy(corpus.vectors))
    learner.to(choose_device(training.device), training.dtype)
    if config.model.looks_up:
        attach(learner.model)
    return learner


def build(config: RunConfig, corpus: Corpus | None) -> Learner:
    """The model and the objective of a run, in float32 on torch's default device."""
    model = config.model.build()
    tokens = None if corpus is None else corpus.train
    objective = _objective(config, tokens)
    if tokens is not None and corpus is not None and corpus.neighbors is not None:
        objective = WithNeighbors(objective, _objective(config, positions(tokens)), tokens, corpus.neighbors)
    return new_learner(model, objective, config.training)


def new_learner(model: Model, objective: Objective, training: TrainConfig) -> Learner:
    """A model and its objective, which reads rows as the settings say where one process reads them."""
    learner = Learner(model, objective)
    if training.pieces > 1:
        learner.read_by(InPieces(model, training.pieces))
    return learner


def _objective(config: RunConfig, tokens: Tokens | None) -> Objective:
    """The objective of a run that trains on these tokens."""
    training = config.training
    if training.memory == "carry":
        within = config.data.within_documents
        return CarriedNextToken(tokens, config.model.context, training.batch, training.through, within)
    return training.objective.build(config.model, config.data, training.batch, tokens)


def identity(config: RunConfig, corpus: Corpus | None) -> dict[str, Any]:
    """What must be equal for two runs to be the same: see `RunConfig.identity`."""
    if corpus is None:
        return config.identity(config.training.objective.data_identity(config.data))
    return config.identity(corpus.identity, corpus.tokenizer.json)
