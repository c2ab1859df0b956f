"""Writes the charts of docs/images that are drawn from rows.

    python -m docs.making.images

answer.svg          losses of results/paper/fig8.jsonl, three seeds per mixer; times of results/step.jsonl
extrapolate.svg     loss against length beyond training, of results/extrapolate.jsonl
markov_gap.svg      distance to Markov chains against their order, of results/markov_gap.jsonl
agents-*.svg        returns that Decision Transformers reach, of results/agents.jsonl
maze-*.svg          right turns in T-mazes by length, of results/t_maze.jsonl
board*.svg          bits per byte of the rows of the board, if there are any
"""

from collections.abc import Sequence
from pathlib import Path

from docs.making import picture
from docs.making.results import RESULTS, rows
from seqloom.core.statistics import mean_of
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Table
from seqloom.report.charts.points import points
from seqloom.report.charts.style import styles
from seqloom.report.results import R
from seqloom_studies.agents import page as agents
from seqloom_studies.board import section
from seqloom_studies.extrapolate import page as extrapolate
from seqloom_studies.markov_gap import page as markov_gap
from seqloom_studies.maze import page as maze
from seqloom_studies.paper.page_rows import read

IMAGES = Path(__file__).parents[1] / "images"


def images() -> dict[str, Chart]:
    """The charts by the names of their files."""
    by_length = sorted(_rows("extrapolate", extrapolate.Longer), key=lambda row: row.length)
    played = [*agents.charts(_rows("agents", agents.Played)), maze.charts(_rows("t_maze", maze.Turn))[0]]
    return {
        "answer.svg": answer(),
        "extrapolate.svg": extrapolate.charts(by_length)[0],
        "markov_gap.svg": markov_gap.charts(_rows("markov_gap", markov_gap.Gap))[0],
        **section.pictures(RESULTS),
        **{f"{chart.name}.svg": chart for chart in played},
    }


def answer() -> Chart:
    """Six mixers: the mean of three seeds with Student's 95% interval, against milliseconds per step."""
    times = {row["mixer"]: row["ms_median"] for row in rows("step") if row["freed_memory_kept"]}
    cells: list[list[Cell]] = []
    for line in read(RESULTS / "paper" / "fig8.jsonl").lines:
        loss = mean_of(line.known_values("held_out"))
        half_interval = loss.half or 0.0
        cells.append([line.series, times[line.series], loss.mean, loss.mean - half_interval, loss.mean + half_interval])
    title = "A hundred children's books, 3,000 batches, context 32, 2 layers, 3 seeds"
    description = "Held-out loss with its 95% interval against the time of a training step, six mixers."
    return loss_against_time("answer", title, description, cells, ["attention-heads=32"])


def loss_against_time(
    name: str, title: str, description: str, rows: Sequence[Sequence[Cell]], front: Sequence[str], *, log: bool = False
) -> Chart:
    """A mark per row: model, milliseconds per step, loss, lowest and highest loss. A line joins the models of `front`.

    Names of `front` are placed first, so that they are shown where names lack room.
    """
    x, y = Axis("ms per step", "ms per training step", log), Axis("loss", "held-out loss, nats per token")
    table = Table(["model", x.column, y.column, "lowest seed", "highest seed"], rows)
    styles_by_name = styles([str(row[0]) for row in rows])
    return Chart(
        name, title, description, {"rows": table}, [Choice(title, lambda: points(table, x, y, styles_by_name, front))]
    )


def _rows(file: str, schema: type[R]) -> list[R]:
    """The rows of results/FILE.jsonl, as the page of their study reads them."""
    return [schema.model_validate(row) for row in rows(file)]


if __name__ == "__main__":
    for name, chart in images().items():
        picture.write(chart, IMAGES / name)
        print(f"docs/images/{name} is written")
