"""What a run says of its text: where it is from, how it is cut into tokens, and what is held out."""

from typing import final

from pydantic import Field

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
    seed: Seed = Field(0, description="chooses the held-out documents and the order of the windows")
