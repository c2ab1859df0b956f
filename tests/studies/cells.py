"""Cells that need no training, for the tests of the engine; importable, because separate processes import them."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from seqloom.core.progress import Say, Show
from seqloom.studies.study import Cell, Row, Study


@final
class Number(Row):
    """A number."""

    value: int


@dataclass(frozen=True)
class Square(Cell):
    """The square of a number; `error` is what happens instead."""

    schema: ClassVar = Number
    number: int = 0
    error: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        return {"number": self.number}

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        with show("squaring", 1, "numbers") as advance:
            advance()
        match self.error:
            case "value":
                raise ValueError("too odd\nto be squared")
            case "memory":
                raise MemoryError
            case "torch":
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            case "disk":
                raise OSError(28, "No space left on device", str(folder / "metrics.jsonl"))
            case "fault":
                raise KeyError("of our own")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "interrupted":
                raise KeyboardInterrupt
        return [Number(value=self.number**2)]


@final
@dataclass(frozen=True)
class Timed(Square):
    """One that needs the machine to itself."""

    alone: ClassVar = True


def study(*stages: Sequence[Cell], **settings: Any) -> Study:
    """A study of these stages."""
    return Study("squares", settings, lambda results: iter(stages))
