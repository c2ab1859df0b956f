"""The pictures on the page of the replication: charts of each study as its report has them, of the rows in results."""

from pathlib import Path

from docs.making.paper.kept_rows import Kept
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.draw import svg
from seqloom.report.study.charts import charts
from seqloom.report.study.rows import Study

FOLDER = Path(__file__).parents[2] / "images/paper"
SHOWN = ("second half", "parameters", "ms per")
"""in the heading of what is shown of a study with a training course; its other charts show less at this size"""


def shown(file: str, study: Study) -> dict[str, Chart]:
    """The charts of a study that the page shows, by the names of their files."""
    found = charts(study)
    if study.figure["kind"] in ("curves", "points"):
        found = [chart for chart in found if any(words in chart.heading for words in SHOWN)]
    return {Path(file).stem + chart.name.removeprefix(study.figure["name"]) + ".svg": chart for chart in found}


def links(file: str, study: Study) -> list[str]:
    """The pictures of a study as the page shows them."""
    heading = study.figure["heading"]
    return [f"![{heading}: {chart.heading}](images/{FOLDER.name}/{name})" for name, chart in shown(file, study).items()]


def write(studies: Kept, folder: Path = FOLDER) -> None:
    """Writes them all, and removes those of studies that are gone."""
    drawn = {
        name: chart for files in studies.values() for file, study in files for name, chart in shown(file, study).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.glob("*.svg")) - {folder / name for name in drawn}:
        old.unlink()
    for name, chart in drawn.items():
        (folder / name).write_text(svg(chart), encoding="utf-8")
