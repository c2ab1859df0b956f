"""Renders templates: style, scripts and the data of charts become part of the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from seqloom.report.charts import draw
from seqloom.report.charts.chart import Chart, Spec
from seqloom.report.charts.style import DARK, config, css
from seqloom.report.inside import Map
from seqloom.report.samples import STEPS
from seqloom.report.tradeoffs import names_its_unit

HERE = Path(__file__).parent


def render(template: str | Path, report: object, charts: Sequence[Chart], maps: Sequence[Map] = ()) -> str:
    """The page of a report. Without Altair and vl-convert it has the numbers of its charts only, and says so.

    `template` is a file here, or the path of one elsewhere, which may extend those here.
    """
    path = HERE / template
    environment = Environment(
        loader=FileSystemLoader([path.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"names_its_unit": names_its_unit, "steps": STEPS}
    drawable = draw.has_charts()
    return environment.get_template(path.name).render(
        report=report,
        drawable=drawable,
        style=Markup(css() + (HERE / "style.css").read_text(encoding="utf-8")),
        data=_json(charts, maps, drawable=drawable),
        vega=Markup(draw.script()) if drawable and charts else "",
        script=Markup((HERE / "page.js").read_text(encoding="utf-8")),
    )


def _plain(specification: Spec) -> Spec:
    """The specification without its schema's URL, so that the page has no external reference."""
    return {name: part for name, part in specification.items() if name != "$schema"}


def _json(charts: Sequence[Chart], maps: Sequence[Map], *, drawable: bool) -> Markup:
    """The data as page.js reads them; no text in them can end the element that holds them."""
    data: dict[str, Any] = {
        "charts": {
            chart.name: {
                "tables": {name: table.csv for name, table in chart.tables.items()},
                "choices": [_plain(choice.draw()) for choice in chart.choices] if drawable else [],
            }
            for chart in charts
        },
        "maps": {map.name: map.table.csv for map in maps},
        "config": config(),
        "dark": DARK,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
