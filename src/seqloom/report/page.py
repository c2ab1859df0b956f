"""The page: OUT/report.html, one file that needs nothing beside it, and OUT/figures with each figure as SVG and CSV."""

import gzip
import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from seqloom.report import answer, inside, origin, price, standing, training, windows, writing
from seqloom.report.comparison import Comparison
from seqloom.report.exhibit import Exhibit
from seqloom.report.figures import css, standalone
from seqloom.report.figures.ramps import STEPS, fill
from seqloom.report.figures.strokes import dash
from seqloom.report.read import read

HERE = Path(__file__).parent


def write(out: Path) -> Path:
    """Writes the report of the comparison in `out` beside it; returns the path of report.html.

    Damaged and missing rows are named on the page and on standard error. FileNotFoundError and ValueError as `read` has
    them; ValueError where a figure cannot be drawn.
    """
    found = read(out)
    for line in found.damage:
        print(line, file=sys.stderr)
    sections = {
        "training": training.exhibits(found),
        "position": windows.exhibits(found),
        "price": price.exhibits(found),
        "lags": inside.looks_back(found),
    }
    layers = inside.layers(found)
    exhibits = [one for part in sections.values() for one in part] + [one for layer in layers for one in layer.exhibits]
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    for panel in (panel for one in exhibits for panel in one.panels):
        (folder / f"{panel.name}.svg").write_text(standalone(panel.svg), encoding="utf-8")
        (folder / f"{panel.name}.csv").write_text(panel.csv, encoding="utf-8")
    (folder / "contenders.csv").write_text(standing.as_csv(found), encoding="utf-8")
    path = out / "report.html"
    path.write_text(_html(found, sections, layers, exhibits), encoding="utf-8")
    return path


def plotly() -> str | None:
    """The script of plotly that its Python package carries; None where that is not installed."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def packed(script: str) -> str:
    """The script as the page holds it."""
    return b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def _html(
    found: Comparison, sections: dict[str, list[Exhibit]], layers: list[inside.Layer], exhibits: Sequence[Exhibit]
) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    drawing = plotly()
    return environment.get_template("template.html.jinja").render(
        found=found,
        answer=answer.sentences(found),
        beneath=answer.beneath(found),
        rows=standing.rows(found),
        csv=standing.as_csv(found),
        sections=sections,
        layers=layers,
        prompted=writing.prompted(found),
        steps=writing.STEPS,
        facts=origin.facts(found),
        methods=origin.methods(found),
        style=Markup(css() + (HERE / "style.css").read_text(encoding="utf-8")),
        scripts=[Markup((HERE / name).read_text(encoding="utf-8")) for name in ("page.js", "drawing.js")],
        plotly=None if drawing is None else packed(drawing),
        data=_json(exhibits),
        safe=Markup,
        named=price.named,
        dash=dash,
    )


def _json(exhibits: Sequence[Exhibit]) -> Markup:
    """The figures as page.js reads them; no text in them can end the element that holds them."""
    data: dict[str, Any] = {
        "figures": {
            one.name: {"shared": one.shared, "panels": [panel.plot for panel in one.panels]} for one in exhibits
        },
        "ramps": {
            "one": [fill(step, False) for step in range(0, STEPS + 1, 4)],
            "two": [fill(step, True) for step in range(-STEPS // 2, STEPS // 2 + 1, 4)],
        },
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
