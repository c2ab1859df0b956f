"""The page of the tour, one file that loads nothing from the network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from markupsafe import Markup

from seqloom.report import html
from seqloom.runs.durable import replace_text
from seqloom.tour import content
from seqloom.tour.content import Content

HERE = Path(__file__).parent
NAMES = {"attention-heads=2": "attention", "gated_delta-heads=2": "gated_delta", "he": "the HE Extractor"}
"""how the page calls the models of the stored runs"""


@final
@dataclass(frozen=True)
class Pairs:
    """One stored run: the share of pairs that each model recalls, and the command that repeats it."""

    rows: Sequence[dict[str, Any]]

    @classmethod
    def read_all(cls) -> tuple["Pairs", "Pairs"]:
        """The two stored runs: pairs read once, and rows of twice the trained length."""
        once, longer = (
            [row for row in content.runs() if (row["test"] is not None) == is_longer] for is_longer in (False, True)
        )
        return cls(once), cls(longer)

    @property
    def shares(self) -> list[tuple[str, str]]:
        """Each model, and its share of right answers."""
        return [(NAMES[row["mixer"]], f"{100 * row['accuracy']:.0f}%") for row in self.rows]

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return str(self.rows[0]["command"])

    @property
    def origin(self) -> str:
        """Sizes, time, machine, date and commit."""
        first = self.rows[0]
        seconds = sum(row["seconds"] for row in self.rows)
        batches = max(row["batches"] for row in self.rows)
        trained = f"at most {batches:,} batches of {first['batch']} rows, seed {first['seed']}"
        origin = f"{first['machine']}; {first['date']}, commit {first['commit']}"
        size = f"{first['depth']} layers, dim {first['dim']}"
        return f"{size}, {trained}; {seconds:.0f} s of training on {origin}"

    @property
    def questions(self) -> str:
        """How many questions each model was asked."""
        return f"{self.rows[0]['asked']:,}"


@final
@dataclass(frozen=True)
class Tour:
    """The content of the page."""

    content: Content

    @property
    def words(self) -> list[str]:
        """The tokens of the sentence."""
        words: list[str] = self.content.data["variants"][0]["words"]
        return words

    @property
    def replaceable(self) -> str:
        """The word that can be changed."""
        return self.words[self.content.sentence.place].strip()

    @property
    def memory(self) -> dict[str, str]:
        """What each model keeps of a text, in words."""
        return {str(kind): words for kind, words in self.content.memory.items()}

    @property
    def code(self) -> dict[str, str]:
        """The lines of PyTorch of each mixer."""
        return {kind: content.source(kind) for kind in content.CODE}

    @cached_property
    def runs(self) -> tuple[Pairs, Pairs]:
        """The two stored runs."""
        return Pairs.read_all()

    @property
    def pairs(self) -> list[tuple[tuple[str, str], str]]:
        """Each model with its share in the first run, and its share in the second."""
        longer = dict(self.runs[1].shares)
        return [(once, longer[once[0]]) for once in self.runs[0].shares]

    @property
    def data(self) -> Markup:
        """The numbers, for the script; no text in them can end the element that holds them."""
        text = json.dumps(self.content.data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))

    @property
    def style(self) -> Markup:
        """What the page adds to the style of a report."""
        return Markup((HERE / "page.css").read_text(encoding="utf-8"))

    @property
    def script(self) -> Markup:
        """What draws the pictures."""
        return Markup((HERE / "page.js").read_text(encoding="utf-8"))


def render(shown: Content) -> str:
    """The page as HTML."""
    return html.render(HERE / "page.jinja", Tour(shown), [])


def write(path: Path, shown: Content) -> Path:
    """Writes the page and returns its path."""
    replace_text(path, render(shown))
    return path
