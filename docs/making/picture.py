"""A chart as a picture of the docs: the same chart is the same file, however often it is drawn."""

import re
from pathlib import Path

from seqloom.report.charts.chart import Chart
from seqloom.report.charts.draw import svg

CLIP = re.compile(r"\bclip(\d+)\b")
"""the name of a clipping path, which the renderer numbers through all pictures of a process"""


def write(chart: Chart, path: Path) -> None:
    """Writes the chart as SVG, its clipping paths numbered from 1."""
    drawn = svg(chart)
    numbers = dict.fromkeys(CLIP.findall(drawn))
    ours = {number: f"clip{count}" for count, number in enumerate(numbers, 1)}
    path.write_text(CLIP.sub(lambda match: ours[match[1]], drawn), encoding="utf-8")
