"""Copies the rows of the paper's studies to results/paper, and writes docs/replication.md from them.

    python -m docs.making.replication OUT …

OUT is the --out of `seqloom study paper`. Stored rows of a study are replaced by those in OUT; rows with another number
of batches are stored next to them as NAME-BATCHES.jsonl. `make pages` writes the page without OUT.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.making import picture
from docs.making.command import exit_code
from docs.making.results import RESULTS
from seqloom.report.charts.chart import Chart
from seqloom_studies.paper import timed
from seqloom_studies.paper.charts import charts
from seqloom_studies.paper.page_rows import Study
from seqloom_studies.paper.replication import Replication, Studies, studies_in, texts_in
from seqloom_studies.paper.stored_rows import store

FOLDER = RESULTS / "paper"
PAGE = Path(__file__).parents[1] / "replication.md"
IMAGES = PAGE.parent / "images/paper"
SHOWN = ("second half", "parameters", "ms per")
"""words in the headings of the charts that are shown of a study with training curves, of which others show less"""
MISPRINTS = " [The errata](errata.md) have the misprints."
CLOSING = (
    "This page is generated: `python -m docs.making.replication OUT` stores the rows of "
    "`seqloom study paper --out OUT`, and `make pages` computes the verdicts."
)


def page(folder: Path = FOLDER) -> str:
    """The whole page, of the rows in a folder."""
    return content(folder).page()


def content(folder: Path = FOLDER) -> Replication:
    """What the page says, of the rows in a folder; those of speed are in results/."""
    studies, texts, speed_claims, machines = (
        studies_in(folder),
        texts_in(folder),
        timed.verdicts(RESULTS),
        timed.machines(RESULTS),
    )
    return Replication(studies, texts, speed_claims, machines, pictures, "../results/paper/", MISPRINTS, CLOSING)


def pictures(file: str, study: Study) -> list[str]:
    """The pictures of a study as the page shows them."""
    heading = study.figure.heading
    drawn = charts_of(file, study).items()
    return [f"![{heading}: {chart.heading}](images/{IMAGES.name}/{name})" for name, chart in drawn]


def charts_of(file: str, study: Study) -> dict[str, Chart]:
    """The charts of a study that the page shows, by the names of their files."""
    drawn = charts(study)
    if study.figure.kind in ("curves", "points"):
        drawn = [chart for chart in drawn if any(words in chart.heading for words in SHOWN)]
    return {Path(file).stem + chart.name.removeprefix(study.figure.name) + ".svg": chart for chart in drawn}


def draw(studies: Studies, folder: Path = IMAGES) -> None:
    """Writes the pictures of all studies, and removes those of studies that are gone."""
    all_files = (file for files in studies.values() for file in files)
    drawn = {name: chart for file, study in all_files for name, chart in charts_of(file, study).items()}
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.glob("*.svg")) - {folder / name for name in drawn}:
        old.unlink()
    for name, chart in drawn.items():
        picture.write(chart, folder / name)


def write() -> None:
    """The page, and its pictures in images/paper next to it."""
    PAGE.write_text(page(), encoding="utf-8")
    draw(studies_in(FOLDER))


def main() -> int:
    """Exit code 2 where rows cannot be stored."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", nargs="*", type=Path)
    return exit_code(lambda: _update(parser.parse_args().out))


def _update(outs: Sequence[Path]) -> Iterator[str]:
    for out in outs:
        yield from (f"{out.name}: results/paper/{path.name}" for path in store(out, FOLDER))
    write()
    yield "docs/replication.md"


if __name__ == "__main__":
    sys.exit(main())
