"""Writes docs/api/: a page for each part of the library that other code calls or derives from.

    page = a title, a sentence, and for each module `::: module`, which mkdocstrings fills in from its docstrings

`make docs` reads the source without importing it. `make pages` writes the pages.
"""

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "api"


class Part(NamedTuple):
    """A page of the reference."""

    title: str
    about: str
    modules: tuple[str, ...]


PARTS = {
    "seqloom": Part("import seqloom", "What most programs need, each in one call.", ("seqloom.face",)),
    "mixer": Part(
        "Mixers",
        "What a mixer derives from: its contract, its settings, its state and its price. "
        "[The contract](../contract.md) says what each verb promises.",
        tuple(
            f"seqloom.core.{name}"
            for name in ("mixer", "mixer_config", "layer", "state_spec", "state", "cost", "parts", "view")
        ),
    ),
    "position": Part("Positions", "What gives tokens their positions.", ("seqloom.core.position",)),
    "model": Part(
        "Models",
        "What a model of any kind has: its contract, and the settings of models that are made of layers.",
        tuple(f"seqloom.core.{name}" for name in ("model", "model_config", "layered")),
    ),
    "objective": Part("Objectives", "What a model is trained to do.", ("seqloom.core.objective",)),
    "contracts": Part(
        "Promises",
        "The promises of the contract as functions, which `seqloom verify` calls.",
        ("seqloom.contracts", "seqloom.contracts.finding", "seqloom.contracts.subject"),
    ),
    "study": Part(
        "Studies",
        "Grids of trainings and measurements: stages of cells, whose rows are saved one by one.",
        tuple(f"seqloom.studies.{name}" for name in ("study", "runner", "results")),
    ),
    "statistics": Part(
        "Statistics", "Intervals, differences and verdicts.", ("seqloom.core.statistics", "seqloom.core.verdict")
    ),
}
"""the pages by the names of their files"""


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    return {f"{name}.md": page(part) for name, part in PARTS.items()}


def page(part: Part) -> str:
    """The text of a page."""
    blocks = "\n\n".join(f"::: {module}" for module in part.modules)
    return f"# {part.title}\n\n{part.about}\n\n{blocks}\n"


def write() -> None:
    """Writes all pages, and removes others."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
