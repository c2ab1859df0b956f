"""How much of a file that grows is flushed to disk, while a store or a table of it is made.

progress.json    {"parts": 3, "entries": 18, "sha256": …}      3 windows or blocks, 18 tokens
"""

from collections.abc import Sequence
from pathlib import Path
from typing import final

from pydantic import Field

from seqloom.core.config import Config
from seqloom.retrieval.store import parse_settings, read_sealed
from seqloom.runs.durable import replace
from seqloom.runs.layout import seal_settings


@final
class Progress(Config):
    """The windows or blocks that are flushed to disk, and the tokens in them."""

    parts: int = Field(0, ge=0, description="windows or blocks that are on disk")
    entries: int = Field(0, ge=0, description="tokens in them")


def read_progress(path: Path, ends: Sequence[int]) -> Progress:
    """What was recorded; nothing where there is no file. `ends[n]` is the number of tokens in the first n parts.

    ValueError, in one line, for a file that was altered, and for numbers that no build writes.
    """
    if not path.exists():
        return Progress()
    progress: Progress = parse_settings(Progress, read_sealed(path), path)
    if progress.parts >= len(ends) or ends[progress.parts] != progress.entries:
        said = f"{progress.entries:,} tokens in {progress.parts:,} parts"
        raise ValueError(f"{path} says {said}, which no build writes: move it away, and the build begins anew")
    return progress


def write_progress(path: Path, progress: Progress) -> None:
    """Records what is flushed to disk."""
    replace(path, seal_settings(progress.model_dump(mode="json")))
