"""What a run says of its text: where it is from, how it is cut into tokens, and what is held out."""

from typing import ClassVar, final

from pydantic import Field, model_validator

from seqloom.core.config import Config
from seqloom.core.seeds import Seed


@final
class DataConfig(Config):
    """The text of a run. Context and batch belong to the model and to the training."""

    source: str = Field(
        min_length=1,
        description="a UTF-8 text file, a folder of them, a .jsonl file, gutenberg-children, or stories[:COUNT[:SEED]]",
    )
    vocab: int = Field(5000, ge=257, le=2**24, description="tokens asked for; the tokenizer's real size may be smaller")
    held_out: float = Field(0.05, gt=0, lt=1, description="part of the text, by whole documents, kept from training")
    unwrap: bool = Field(True, description="join hard line wraps inside paragraphs")
    within_documents: bool = Field(False, description="let no training window hold words of two documents")
    packed: bool = Field(
        False,
        description="train on rows that are filled with whole documents, each read from its own position 0; nothing "
        "crosses a border",
    )
    seed: Seed = Field(0, description="chooses the held-out documents and the order of the windows")
    later: ClassVar = ("packed",)

    @model_validator(mode="after")
    def _one_way(self) -> "DataConfig":
        if self.packed and self.within_documents:
            raise ValueError("packed=true and within_documents=true are two ways to cut a text: choose one")
        return self
