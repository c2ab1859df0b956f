"""What a run starts from: its text, its model and objective, and its identity."""

from pathlib import Path
from typing import Any

import torch

from seqloom.core.device import chosen
from seqloom.core.objective import Objective
from seqloom.data import archive
from seqloom.data.config import DataConfig
from seqloom.data.episodes import described, opened, read_episodes, sides
from seqloom.data.given_tokenizer import Unit, chosen_tokenizer
from seqloom.data.labelled import prepare_labelled
from seqloom.data.packing import require_documents
from seqloom.data.paired import prepare_paired
from seqloom.data.prepare import Corpus, prepare
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.models.decision_config import DecisionConfig
from seqloom.retrieval.lookup import attach
from seqloom.training.capturable import require_graph
from seqloom.training.config import RunConfig
from seqloom.training.memory import require_room
from seqloom.training.neighbors import require_store, with_neighbors
from seqloom.training.objectives.carried import CarriedNextToken
from seqloom.training.objectives.neighbors import WithNeighbors, positions
from seqloom.training.step import Learner
from seqloom.training.vectors import vectors_of, with_vectors


def prepared(config: RunConfig) -> tuple[RunConfig, Corpus | None]:
    """The run's settings with the actual size of the vocabulary, and its tokenized text where the objective reads one.

    ValueError, before the text is read, where a model of these settings would not fit into the memory, or the file of
    vectors or the store that it looks up in does not fit the model.
    """
    file = vectors_of(config)
    if config.model.looks_up:
        require_store(config)
    config, corpus = _with_text(config)
    if file is not None and corpus is not None:
        corpus = with_vectors(corpus, file, config.training.seed)
    if config.model.looks_up and corpus is not None:
        config, corpus = with_neighbors(config, corpus)
    return config, corpus


def _with_text(config: RunConfig) -> tuple[RunConfig, Corpus | None]:
    """As `prepared`, without the vectors of words and without neighbors."""
    training, data = config.training, config.data
    tokenizer, unit = chosen_tokenizer(data.tokenizer if training.objective.reads_text else None, data.vocab)
    if tokenizer is not None:
        config = _with_vocab(config, tokenizer)
    require_graph(training, chosen(training.device))
    require_room(config.model, chosen(training.device), training)
    if training.objective.acts:
        return with_environment(config), None
    if training.objective.plays:
        return with_episodes(config), None
    if not training.objective.reads_text:
        return config, None
    if training.objective.labelled:
        corpus = prepare_labelled(
            data.source,
            task=data.labels,
            words=data.passage,
            vocab=data.vocab,
            context=config.model.context,
            held_out=data.held_out,
            seed=data.seed,
            column=data.column,
            tokenizer=tokenizer,
            unit=unit,
        )
        return with_corpus(config, corpus), corpus
    if training.objective.paired:
        corpus = prepare_paired(
            data.source,
            vocab=data.vocab,
            context=config.model.context,
            held_out=data.held_out,
            seed=data.seed,
            tokenizer=tokenizer,
            unit=unit,
        )
        return with_corpus(config, corpus), corpus
    corpus = text_of(data, config.model.context, tokenizer, unit)
    if data.packed:
        require_documents(corpus.train, data.source)
    return with_corpus(config, corpus), corpus


def text_of(data: DataConfig, context: int, tokenizer: Tokenizer | None, unit: Unit) -> Corpus:
    """The tokenized text of these settings, from a file of `seqloom data prepare` or from its documents."""
    if archive.is_archive(data.source):
        return archive.read(Path(data.source).expanduser(), archive.shaping(data, tokenizer))
    return prepare(
        data.source,
        vocab=data.vocab,
        context=context,
        held_out=data.held_out,
        seed=data.seed,
        unwrap=data.unwrap,
        column=data.column,
        tokenizer=tokenizer,
        division=data.division,
        folds=data.folds,
        fold=data.fold,
        unit=unit,
    )


def with_episodes(config: RunConfig) -> RunConfig:
    """The settings with what follows from episodes: sizes of states and actions, and how states are scaled."""
    assert isinstance(config.model, DecisionConfig)
    train, _ = sides(read_episodes(config.data.source), config.data.held_out, config.data.seed)
    return config.model_copy(update={"model": config.model.with_episodes(train)})


def with_environment(config: RunConfig) -> RunConfig:
    """The settings with the sizes of the environment that the run plays."""
    assert isinstance(config.model, DecisionConfig)
    name = config.data.source
    model = config.model.with_environment(described(name, opened(name)))
    return config.model_copy(update={"model": model})


def with_corpus(config: RunConfig, corpus: Corpus) -> RunConfig:
    """The settings with what follows from a corpus: the vocabulary, and labels where its examples have them."""
    if corpus.labels is not None:
        sizes = {"labels": corpus.labels, "texts": corpus.train.texts}
        config = config.model_copy(update={"model": config.model.model_copy(update=sizes)})
    return _with_vocab(config, corpus.tokenizer)


def _with_vocab(config: RunConfig, tokenizer: Tokenizer) -> RunConfig:
    """The settings with the vocabulary that the tokenizer and the objective have."""
    vocab = config.training.objective.vocab(tokenizer.vocab)
    return config.model_copy(update={"model": config.model.model_copy(update={"vocab": vocab})})


def with_text(config: RunConfig) -> tuple[RunConfig, Corpus]:
    """As `prepared`, for those who need a text. ValueError where the objective reads none."""
    config, corpus = prepared(config)
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
    learner.to(chosen(training.device), training.dtype)
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
    return Learner(model, objective)


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
