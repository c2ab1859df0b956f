"""Charts as SVG text, and the script that draws them in a page; both by vl-convert, an extra."""

import functools
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from xml.sax.saxutils import escape

from seqloom.data import cache
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.style import DARK, PAPER, config

WIDTH = 640
"""pixels of a chart that stands alone"""


def has_charts() -> bool:
    """Whether Altair and vl-convert are installed: `pip install 'seqloom[report]'`."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def svg(chart: Chart, choice: int = 0, width: int = WIDTH) -> str:
    """A chart as an SVG file on light paper, or on dark paper where the reader's system is dark."""
    import vl_convert

    specification = chart.specification(choice) | {
        "title": chart.heading,
        "width": width,
        "config": config(PAPER),
        "padding": 12,
    }
    svg_text: str = vl_convert.vegalite_to_svg(specification)
    rules = "".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}' for light, dark in DARK.items()
    )
    style = f"<style>@media screen and (prefers-color-scheme:dark){{{rules}}}</style>"
    words = f"<desc>{escape(chart.description)} {digest(chart)}</desc>"
    opening, remainder = svg_text.split(">", 1)
    return f"{opening}>{words}{style}{remainder}\n"


def digest(chart: Chart) -> str:
    """The digest of a chart's rows, which its SVG file contains, so that a test can tell whether they have changed."""
    return f"rows {sha256(chart.table.csv.encode()).hexdigest()[:16]}"


@functools.cache
def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which defines `vegaEmbed`.

    Bundling takes seconds, so that the script is cached in a folder.
    """
    import vl_convert

    path = cache.folder() / f"vega-{version('vl-convert-python')}.js"
    if not path.is_file():
        cache.write(path, vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode())
    return path.read_text(encoding="utf-8")
