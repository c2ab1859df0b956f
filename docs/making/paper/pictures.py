"""The pictures on the page of the replication: each study's, drawn as the report does, from the rows that are kept."""

from collections.abc import Sequence
from pathlib import Path

from docs.making.paper.kept_rows import Kept
from seqloom.report.exhibit import Panel
from seqloom.report.figures import standalone
from seqloom.report.plates.exhibits import exhibits
from seqloom.report.plates.rows import Plate

FOLDER = Path(__file__).parents[2] / "images/paper"
WHOLE = "all batches"
"""the choice of a figure whose second half shows more"""


def shown(file: str, plate: Plate) -> dict[str, Panel]:
    """By the name of its picture, the panels of a study's figures; of a course over batches the second half alone."""
    panels = [panel for one in exhibits(plate) for panel in _of(one.panels)]
    return {Path(file).stem + panel.name.removeprefix(plate.figure["name"]) + ".svg": panel for panel in panels}


def _of(panels: Sequence[Panel]) -> Sequence[Panel]:
    course = any(panel.label == WHOLE for panel in panels)
    return [panel for panel in panels if panel.label != WHOLE][:1] if course else panels


def links(file: str, plate: Plate) -> list[str]:
    """The pictures of a study as the page shows them."""
    return [
        f"![{plate.figure['heading']}: {panel.plot['y']['label']}, {panel.label}](images/{FOLDER.name}/{name})"
        for name, panel in shown(file, plate).items()
    ]


def write(studies: Kept, folder: Path = FOLDER) -> None:
    """Writes them all; those of studies that are gone are taken away."""
    drawn = {
        name: standalone(panel.svg)
        for files in studies.values()
        for file, plate in files
        for name, panel in shown(file, plate).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.glob("*.svg")) - {folder / name for name in drawn}:
        old.unlink()
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
