"""Table 2: the texts that 32-head attention and SHE, as trained for Figure 8, generate from the paper's prompt.

Source: the Extractor paper, section 6: top-p 0.6 and the same random seed for both; the window slides by one token
(Eq. 2). The paper says neither its seed nor how many tokens; 120 are about as many as its table has.
"""

import json
from dataclasses import asdict, dataclass
from typing import final

from seqloom.analysis.origin import origin
from seqloom.core.progress import progress
from seqloom.face import load
from seqloom.generation.decode import generate
from seqloom.runs.durable import replace
from seqloom_studies.paper.grid import Cell, Grid
from seqloom_studies.paper.progress import progress as progress_of
from seqloom_studies.paper.studies import HEADS32

PROMPT = "Once upon a time there was a little princess who"
TOP_P = 0.6
TOKENS = 120


@final
@dataclass(frozen=True)
class Writing:
    """The text of a model after `batches` of `asked` batches; None before its first checkpoint."""

    name: str
    batches: int
    asked: int
    text: str | None


def cells(grid: Grid) -> list[Cell]:
    """The runs of Figure 8 with 32-head attention and SHE, of the first seed."""
    return [Cell(grid.model(text), 0) for text in (HEADS32, "she")]


def writings(grid: Grid, seed: int = 0) -> list[Writing]:
    """The texts of the models as trained so far."""
    texts = []
    for cell in cells(grid):
        folder = grid.folder(cell)
        text = None
        if any((folder / "checkpoints").glob("step_*")):
            with progress(f"{cell.model.name} writes", TOKENS, "tokens") as advance:
                pieces = []
                for piece in generate(load(folder), PROMPT, max_tokens=TOKENS, top_p=TOP_P, seed=seed, mode="slide"):
                    pieces.append(str(piece))
                    advance()
                text = PROMPT + "".join(pieces)
        asked = grid.batches(cell)
        texts.append(Writing(cell.model.name, progress_of(folder, asked).batches, asked, text))
    return texts


def write(grid: Grid, command: str) -> list[Writing]:
    """Saves the texts as rows in OUT/table2.jsonl, and returns them."""
    texts = writings(grid)
    shared = {"prompt": PROMPT, "top_p": TOP_P, "seed": 0, "scale": grid.scale.name, **origin(command)}
    lines = (json.dumps({**asdict(text), **shared}, ensure_ascii=False) + "\n" for text in texts)
    replace(grid.out / "table2.jsonl", "".join(lines).encode())
    return texts
