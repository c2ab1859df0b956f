"""The page of a folder: that of a comparison, or of a study whose page is drawn from its rows alone."""

from pathlib import Path

from seqloom.core.files import read_json
from seqloom.report import agents, extrapolate, markov_gap, maze, page
from seqloom.report.results import RESULTS

PAGES = {page_of.STUDY: page_of.write for page_of in (agents, maze, extrapolate, markov_gap)}
"""what writes the page of a study, by the study's name"""


def write(out: Path) -> Path:
    """Writes the page of the comparison or the study in `out`; returns its path. FileNotFoundError and ValueError."""
    return PAGES.get(_study(out), page.write)(out)


def _study(out: Path) -> str:
    """The name of the study that `out` was made by; "" for a comparison, and where there are no rows of a study."""
    config = out / "config.json"
    if (out / "comparison.json").is_file() or not (out / RESULTS).is_file() or not config.is_file():
        return ""
    settings = read_json(config)
    return str(settings.get("study", "")) if isinstance(settings, dict) else ""
