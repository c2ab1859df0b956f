"""docs/paper.md, for readers of the Extractor paper: equations with their lines of code, claims, commands, misprints.

make pages         writes it

The lines are read from the source by what they begin with, verdicts and minutes are those of the rows in results/paper,
and the misprints are the entries of docs/errata.md.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import multimode
from typing import Any, final

from docs.making import replication
from docs.making.results import RESULTS
from docs.making.template import render
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.ops.lag_sum import reference
from seqloom_studies.paper import timed
from seqloom_studies.paper.claims import ANCHORS, CLAIMS, Claim
from seqloom_studies.paper.counted import COUNTS
from seqloom_studies.paper.page_rows import Figure, Study
from seqloom_studies.paper.replication import LOSSES, Replication, Studies, command_of
from seqloom_studies.paper.verdicts import count_verdicts

ROOT = Path(__file__).parents[2]
PAGE, ERRATA = ROOT / "docs/paper.md", ROOT / "docs/errata.md"
DETAILS = "replication.md"
ABOUT_PAPER = "## The Extractor paper"
"""the section of the errata whose entries are listed"""
LONGEST = 60
"""minutes of training of a study that is listed as one for a laptop"""


@final
@dataclass(frozen=True)
class Line:
    """A statement of this repository: its function, and what it begins with."""

    function: Callable[..., Any]
    beginning: str

    @property
    def text(self) -> str:
        """The statement as it is in the source. ValueError where not exactly one begins so."""
        lines = [line.strip() for line in inspect.getsource(self.function).splitlines()]
        found = [line for line in lines if line.startswith(self.beginning)]
        if len(found) != 1:
            name = self.function.__qualname__
            raise ValueError(f"{len(found)} lines of {name} begin with {self.beginning!r}: name one in {__name__}")
        return found[0]

    @property
    def place(self) -> str:
        """A link to its file."""
        path = Path(inspect.getfile(self.function)).relative_to(ROOT)
        return f"[`{self.function.__qualname__}`](../{path.as_posix()})"


@final
@dataclass(frozen=True)
class Equation:
    """An equation of the paper in its letters, the mixers that have it, and its lines."""

    number: int
    mixers: str
    formula: str
    lines: tuple[Line, ...]


SUM = Line(reference.lags, "y = y +")
EQUATIONS = (
    Equation(23, "SHE", "x_i^[out_ext] = Σ_{j≤i} x_j^[in_sub1] W_{i-j+1}^[ext]",
             (SUM, Line(reference.product, "return x @"))),
    Equation(24, "SHE, WE, HE", "X^[out_adj] = (X^[in_sub1] W^[adj]) ∘ X^[out_ext]", (Line(Extractor.mix, "y ="),)),
    Equation(25, "SHE, WE, HE", "X^[out_sub1] = X^[out_adj] W^[out]", (Line(Extractor.mix, "out ="),)),
    Equation(26, "WE", "x_i^[out_ext] = Σ_{j≤i} x_j^[in_sub1] ∘ w_{i-j+1}^[ext]",
             (SUM, Line(reference.product, "return x *"))),
    Equation(27, "HE", "X^[ext] = X^[in_sub1] W^[in_ext]", (Line(Extractor.mix, "z ="),)),
    Equation(28, "HE", "x_i^[out_ext] = Σ_{j≤i} x_j^[ext] ∘ w_{i-j+1}^[ext]",
             (SUM, Line(reference.product, "return x *"))),
    Equation(29, "ME", "x_i^[out_sub1] = Σ_{j≤i} x_j^[in_sub1] w_{i-j+1}^[ext]",
             (SUM, Line(reference.product, "return x *"))),
)  # fmt: skip
"""the order is the paper's"""
CALL = Line(Extractor.mix, "e, entries =")
"""where a mixer calls the sum"""


def page() -> str:
    """The text of the page."""
    found = replication.content()
    races = [race.verdict for race in timed.verdicts(RESULTS)]
    machine, laptop = laptop_studies(found.studies)
    return render(
        "paper",
        equations=[
            (
                equation.number,
                equation.mixers,
                f"`{equation.formula}`",
                "<br>".join(f"`{line.text}`" for line in equation.lines),
                "<br>".join(line.place for line in equation.lines),
            )
            for equation in EQUATIONS
        ],
        call=CALL.text,
        claims=[(claim.text, *_verdicts(found, claim), _size(found, claim)) for claim in CLAIMS],
        claim_count=len(CLAIMS),
        counted=f"{len(COUNTS)} claims are counted: {count_verdicts([count.count() for count in COUNTS])}",
        timed=f"{len(races)} claims are about speed: {count_verdicts(races)}",
        machine=machine,
        laptop=laptop,
        misprints=misprints(ERRATA.read_text(encoding="utf-8")),
    )


def _verdicts(found: Replication, claim: Claim) -> list[str]:
    """The verdicts on a claim for both losses, each a link to its row."""
    words = [found.verdicts[claim, loss][0][1].word for loss in LOSSES]
    return [f"[{word}]({DETAILS}#{ANCHORS[claim]})" for word in words]


def _size(found: Replication, claim: Claim) -> str:
    """At which size the verdict on a claim is, and of how many seeds."""
    study, _ = found.verdicts[claim, "training"][0]
    if study is None:
        return "no loss can show it"
    figure = study.figure
    return f"{figure.differs or 'the size of the paper'}; {figure.seeds} seed{'s' * (figure.seeds > 1)}"


def laptop_studies(studies: Studies) -> tuple[str, list[tuple[str, str, int, str]]]:
    """The machine on which most small studies were run whole, and of those of at most `LONGEST` minutes the rows.

    A row has a study's heading, its number of runs, its minutes and its command, the quickest first.
    """
    whole = [(name, study) for name, files in studies.items() for _, study in files if is_whole(study.figure)]
    machine = max(multimode(study.figure.origin.machine for _, study in whole), default="")
    rows = []
    for name, study in whole:
        minutes = minutes_of(study)
        if study.figure.origin.machine == machine and minutes <= LONGEST:
            runs = sum(len(line.seeds) for line in study.lines)
            size = f"{runs} of {study.figure.batches:,} batches"
            command = f"`{command_of(name, study)} --data books/`"
            rows.append((study.figure.heading, size, round(minutes), command))
    return machine, sorted(rows, key=lambda row: row[2])


def is_whole(figure: Figure) -> bool:
    """Whether a study ran all its models at the scale for two cores."""
    return figure.scale == "small" and "--only" not in figure.origin.command


def minutes_of(study: Study) -> float:
    """The minutes of training of all runs together: the median time of a batch, times the batches."""
    rows = [seed.row for line in study.lines for seed in line.seeds]
    return sum((row.seconds or 0) * row.batches for row in rows) / 60


def misprints(errata: str) -> list[tuple[str, str]]:
    """Each entry of the errata about the Extractor paper, and a link to its section."""
    section = errata.split(f"\n{ABOUT_PAPER}\n")[1].split("\n## ", maxsplit=1)[0]
    found = []
    for part in section.split("\n### ")[1:]:
        heading, _, text = part.partition("\n")
        anchor = heading.lower().replace(" ", "-")
        titles = re.findall(r"^\*\*(.+?)\*\*", text, flags=re.M | re.S)
        found += [
            (" ".join(title.split()).rstrip("."), f"[{heading.lower()}]({ERRATA.name}#{anchor})") for title in titles
        ]
    return found
