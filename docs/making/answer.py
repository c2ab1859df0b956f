"""Writes docs/images/answer.svg, README's picture: held-out loss against the time of a training step.

    python -m docs.making.answer

Losses are of results/paper/fig8.jsonl, three seeds each; times of results/step.jsonl, in turns in one run.
"""

import json
from pathlib import Path

from seqloom.core.statistics import mean_of
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Table
from seqloom.report.charts.draw import svg
from seqloom.report.charts.points import points
from seqloom.report.charts.style import looks
from seqloom.report.study.rows import read

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "images" / "answer.svg"


def chart() -> Chart:
    """Six mixers: the mean of three seeds with Student's 95% interval, against milliseconds per step."""
    steps = [json.loads(line) for line in (ROOT / "results" / "step.jsonl").read_text("utf-8").splitlines()]
    times = {row["mixer"]: row["ms_median"] for row in steps if row["freed_memory_kept"]}
    rows: list[list[Cell]] = []
    for line in read(ROOT / "results" / "paper" / "fig8.jsonl").lines:
        loss = mean_of(line.known("held_out"))
        half = loss.half or 0.0
        rows.append([line.series, times[line.series], loss.mean, loss.mean - half, loss.mean + half])
    x, y = Axis("ms per step", "ms per training step"), Axis("loss", "held-out loss, nats per token")
    table = Table(["model", x.column, y.column, "lowest seed", "highest seed"], rows)
    title = "A hundred children's books, 3,000 batches, context 32, 2 layers, 3 seeds"
    words = "Held-out loss with its 95% interval against the time of a training step, six mixers."
    look = looks([str(row[0]) for row in rows])
    draw = Choice(title, lambda: points(table, x, y, look, front=["attention-heads=32"]))
    return Chart("answer", title, words, {"rows": table}, [draw])


if __name__ == "__main__":
    OUT.write_text(svg(chart()), encoding="utf-8")
