"""What a name of another package is here: layers of flash-linear-attention, families of transformers, x-transformers.

    describe("NativeSparseAttention")     nsa, native_sparse_attention, fla.layers:NativeSparseAttention say the same

The table is elsewhere.tsv, a line a name: what has it here, or why it is not here and what is nearest, because of what.
Known without torch.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("elsewhere.tsv")
FLA = "flash-linear-attention"
ENDINGS = ("attention", "layer", "mixer", "model")
"""what a name may end with besides what tells it from others"""


class Elsewhere(NamedTuple):
    """A line of the table."""

    package: str
    names: str
    """separated by spaces, the first as the package writes it"""
    here: str
    """the mixer that is the same, with its settings; empty where there is none"""
    nearest: str
    """else the mixer that is most similar"""
    note: str
    """what is said besides; of one that is not here, why"""
    because: str
    """what the nearest has in common with it"""

    @property
    def name(self) -> str:
        """As its package writes it."""
        return self.names.split()[0]

    def __str__(self) -> str:
        """A sentence, or two."""
        title = f"{self.name} of {self.package}"
        if self.here:
            note = f" ({self.note})" if self.note else ""
            return f"{title} is here as {self.here}{note}"
        own = ""
        if self.package == FLA and self.name[0].isupper():
            own = f"; with that package and a GPU, fla.layers:{self.name} itself stands wherever a mixer is named"
        return f"{title} is not here: {self.note}; the nearest is {self.nearest}, because {self.because}{own}"


@cache
def read() -> list[Elsewhere]:
    """All lines of the table."""
    with PATH.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter="\t")
        next(lines)
        return [Elsewhere(*line) for line in lines]


def find_all(name: str) -> list[Elsewhere]:
    """The lines of this name, in whatever case and with or without underscores and a usual ending."""
    wanted = _fold(name.rpartition(":")[2])
    return [line for line in read() if any(_fold(other) == wanted for other in line.names.split())]


def describe(name: str) -> str | None:
    """What is said of a name, a line for each package that has it; None where none has."""
    return "\n".join(map(str, find_all(name))) or None


def _fold(name: str) -> str:
    """The letters and digits of a name, without a usual beginning or ending."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    letters = letters.removeprefix("attn") if len(letters) > len("attn") else letters
    ending = next((ending for ending in ENDINGS if letters.endswith(ending) and letters != ending), "")
    return letters.removesuffix(ending)
