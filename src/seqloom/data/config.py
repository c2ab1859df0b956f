"""Settings of the text of a run: its source, its tokenizer, and what is held out."""

from typing import Annotated, Any, ClassVar, Literal, final

from pydantic import Field, model_validator

from seqloom.core.config import Config
from seqloom.core.seeds import Seed
from seqloom.data.wraps import Unwrap

SMALLEST = 257
"""entries of the smallest vocabulary of byte pairs: 256 bytes and `<eos>`"""


@final
class WeightedSource(Config):
    """One of several sources of a text."""

    source: str = Field(min_length=1, description="what data.source may be")
    weight: float = Field(gt=0, description="its share of the training windows, relative to the others' weights")


@final
class DataConfig(Config):
    """Settings of the text of a run. The context is a setting of the model, the batch one of the training."""

    source: str = Field(
        min_length=1,
        description="a UTF-8 text file or JSON lines, a folder of them, a .parquet file, a folder of such or of "
        "datasets' save_to_disk (texts and JSON lines also as .gz, .xz, .zst), gutenberg-children, "
        "stories[:COUNT[:SEED]], images:KIND[:SIZE[:COUNT[:SEED]]] (digits, shapes, textures, colors, pathfinder) or "
        "images:./FOLDER of PNG files, or markov:STATES:ORDER:SEED[:variable] or hmm:STATES:SYMBOLS:SEED, whose "
        "letters are the tokens; for training.objective.kind=labels also listops[:COUNT[:SEED[:DEPTH[:LENGTH]]]]; "
        "for training.objective.kind=pairs a .tsv file (source, tab, target) or "
        "pairs:NAME[:COUNT[:SEED]], e.g. pairs:dates; for training.objective.kind=actions "
        "episodes:ENV:POLICY[:COUNT[:SEED]], e.g. episodes:CartPole-v1:mixed; for "
        "training.objective.kind=actor_critic an environment to play, e.g. TMaze-30; for "
        "training.objective.kind=numbers a .csv, .parquet or .npy file of columns of numbers, or numbers:NAME[:SIZE] "
        "(adding, mackey-glass, sines, linear), e.g. numbers:linear:4",
    )
    sources: Annotated[tuple[WeightedSource, ...], Field(strict=False)] = Field(
        (),
        max_length=1000,
        description="several sources in place of data.source, e.g. [{source: books/, weight: 0.7}, {source: web.jsonl, "
        "weight: 0.3}]: each window is drawn from one of them by weight",
    )
    vocab: int | None = Field(
        5000,
        ge=3,
        le=2**24,
        description="entries of the tokenizer that is trained on the text (fewer if the text is too small); with "
        "data.tokenizer, the largest number of entries that it may have, or unset; with "
        "data.tokenizer=words, the number of known words",
    )
    held_out: float = Field(
        0.05, gt=0, lt=1, description="fraction of the text, in whole documents, that is held out from training"
    )
    unwrap: Unwrap = Field(
        "auto",
        description="whether to join hard line wraps inside paragraphs: auto (only in hard-wrapped prose, where most "
        "lines end because the next word had no room, and without a space in scripts that have none), true "
        "(in all texts, with a space) or false",
    )
    within_documents: bool = Field(False, description="whether training windows never cross a document boundary")
    packed: bool = Field(
        False,
        description="whether rows are packed with whole documents: positions start at 0 in each, and no token "
        "attends to another document",
    )
    seed: Seed = Field(0, description="seed of the choice of held-out documents and of the order of windows")
    tokenizer: str | None = Field(
        None,
        min_length=1,
        description="a tokenizer.json; a folder of a Hugging Face tokenizer; bytes; characters (of the text; the "
        "rarest are split into bytes if data.vocab is too small for all); or words (the data.vocab most "
        "frequent of the text, and one unknown token); unset: one is trained on the text",
    )
    division: Literal["documents", "authors"] = Field(
        "documents",
        description="unit that is held out: documents, or all documents of some authors (and of further authors for "
        "tests); authors come from manifest.csv, from a line Author: …, or from file names AUTHOR - "
        "TITLE",
    )
    folds: int | None = Field(
        None,
        ge=2,
        le=1000,
        description="with data.division=authors: all authors but those of the validation text are dealt into so many "
        "folds of about equal size; unset: the text has one test part",
    )
    fold: int | None = Field(
        None, ge=0, description="the fold that is the test text, from 0; unset: all folds are trained on"
    )
    disjoint: bool = Field(
        False,
        description="whether training windows do not overlap, so that an epoch reads each token once, except those "
        "after the last whole window",
    )
    column: str = Field(
        "text",
        min_length=1,
        description="the column (Parquet) or field (JSON lines) that holds the text; a.b is the field b inside a; for "
        "training.objective.kind=numbers the columns of a file, as a,b (default: all)",
    )
    separator: str | None = Field(
        None,
        min_length=1,
        description="what stands between two documents of a text file: line (each line is one), or a text such as "
        "<|endoftext|>; unset: a text file is one document",
    )
    workers: int = Field(
        0,
        ge=0,
        le=1024,
        description="processes that turn the text into tokens, with one thread each; 0: the threads of the tokenizer",
    )
    labels: Literal["given", "book", "later", "same"] = Field(
        "given",
        description="labels for training.objective.kind=labels: given (a .tsv file of label, text and optionally a "
        "second text, or .jsonl), or made from passages of documents: book (which document it is from), "
        "later (which of two comes later), same (whether two are from one document)",
    )
    passage: int = Field(64, ge=1, le=2**20, description="words of a passage, if data.labels is not `given`")
    later: ClassVar = (
        *("packed", "tokenizer", "column", "division", "disjoint", "labels", "passage", "folds", "fold"),
        *("separator", "workers", "sources"),
    )

    @model_validator(mode="before")
    @classmethod
    def _name_sources(cls, values: Any) -> Any:
        """Where there are several sources, `source` is their names."""
        sources = values.get("sources") if isinstance(values, dict) else None
        if not sources or not isinstance(sources, list | tuple):
            return values
        kinds = [each.model_dump() if isinstance(each, WeightedSource) else each for each in sources]
        names = [each.get("source") for each in kinds if isinstance(each, dict)]
        return {**values, "source": " + ".join(map(str, names))}

    @model_validator(mode="before")
    @classmethod
    def _size_of_given(cls, values: Any) -> Any:
        """Unsets the default of `vocab` where a tokenizer is given; for words a size is always needed."""
        has_tokenizer = isinstance(values, dict) and values.get("tokenizer") not in (None, "words")
        return {"vocab": None, **values} if has_tokenizer else values

    @model_validator(mode="after")
    def _check_sizes(self) -> "DataConfig":
        if self.vocab is None and self.tokenizer is None:
            raise ValueError("vocab is needed unless data.tokenizer is given")
        if self.vocab is None and self.tokenizer == "words":
            raise ValueError("vocab is needed with data.tokenizer=words: how many words are known, as data.vocab=20000")
        if self.vocab is not None and self.tokenizer is None and self.vocab < SMALLEST:
            raise ValueError(f"vocab must be at least {SMALLEST} (256 bytes and <eos>), not {self.vocab}")
        return self

    @model_validator(mode="after")
    def _check_deal(self) -> "DataConfig":
        if self.folds is not None and self.division != "authors":
            raise ValueError("folds are of authors: add data.division=authors")
        if self.fold is not None and self.folds is None:
            raise ValueError("fold needs data.folds, the number of folds")
        if self.fold is not None and self.folds is not None and self.fold >= self.folds:
            raise ValueError(f"fold must be one of 0 to {self.folds - 1}, not {self.fold}")
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> "DataConfig":
        if self.sources and self.division == "authors":
            raise ValueError("division=authors divides one source: leave data.sources out")
        return self

    @model_validator(mode="after")
    def _one_way(self) -> "DataConfig":
        if self.packed and self.within_documents:
            raise ValueError("packed=true and within_documents=true are two ways to cut a text: choose one")
        if self.disjoint and (self.packed or self.within_documents):
            other = "packed" if self.packed else "within_documents"
            raise ValueError(f"disjoint=true and {other}=true are two ways to cut a text: choose one")
        return self
