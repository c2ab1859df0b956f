"""What the site adds to a mixer's page: reach maps, the curve of its price, and its rows as a chart and a table."""

from textwrap import indent

from docs.making.families import families
from docs.making.images import loss_against_time
from docs.making.reached import Map, numbers
from docs.making.results import results, rows
from seqloom.mixers import kinds
from seqloom.report.charts.chart import Cell
from seqloom.report.charts.draw import svg
from seqloom.report.comparison import LOSS

READS = "|∂y_t/∂x_s|: how much output t changes when input s does. Colors are on a logarithmic scale; blank means 0."
GLANCE = (
    "What each mixer reads at initialization: outputs from top to bottom, inputs from left to right. A deeper color "
    "means a larger |∂y_t/∂x_s|, blank means 0. The page of a mixer has its equation and this map in full size."
)


def file(kind: str, name: str, ending: str = "svg") -> str:
    """The file name of a picture of a mixer, in the folder of its page."""
    return f"{kind}-{name.replace(',', '').replace(' ', '-')}.{ending}"


def full(markdown: str, kind: str, maps: list[Map]) -> str:
    """A mixer's page with these additions."""
    pictures = "\n".join(f"![{kind}, {map_.name}]({file(kind, map_.name)}){{ .map }}" for map_ in maps)
    notes = "\n".join(f"- {map_.name}: {map_.description}." for map_ in _with_different_descriptions(maps))
    reach_section = f"## What it reads\n\n{READS}\n\n{pictures}\n\n{numbers(maps)}\n\n{notes}\n\n"
    curve = f"![price of {kind} by length]({file(kind, 'price')}){{ .curve }}\n\n"
    measured = results(kind, kinds())
    all_rows = f'??? info "All rows about `{kind}`"\n\n{indent(measured, "    ")}' if measured else "No rows yet."
    chart_line = f"![{kind} among all mixers]({file(kind, 'rows')}){{ .curve }}\n\n" if compared(kind) else ""
    page = _before(markdown, "## Traits\n", reach_section)
    page = _after(page, "## Price by length\n\n", curve)
    return f"{page.rstrip()}\n\n## Results\n\n{chart_line}{all_rows}\n"


def compared(kind: str) -> bool:
    """Whether the comparison of all mixers has a row about it."""
    return any(row.get("kind") == kind and row.get(LOSS) is not None for row in rows("all"))


def chart(kind: str) -> str:
    """Held-out loss against the time of a step for all mixers, with this one in front: the text of an SVG file."""
    measured = [row for row in rows("all") if row.get(LOSS) is not None and row.get("ms a step") is not None]
    cells: list[list[Cell]] = [[row["contender"], row["ms a step"], *[row[LOSS]] * 3] for row in measured]
    contenders_of_kind = [row["contender"] for row in measured if row["kind"] == kind]
    title = f"{kind} among all mixers: {measured[0]['batches']:,} batches, context {measured[0]['context']}, one seed"
    description = "Held-out loss against the time of a training step, one run each."
    return svg(loss_against_time("rows", title, description, cells, contenders_of_kind, log=True))


def glance(markdown: str) -> str:
    """The list of all mixers, with the maps of all of them first."""
    parts = [GLANCE]
    for family, kinds_of_family in families().items():
        links = [
            f'<a href="{kind}.html"><img src="{file(kind, "small", "png")}" alt="what {kind} reads">{kind}</a>'
            for kind in kinds_of_family
        ]
        parts.append(f'**{family}**\n\n<div class="glance">{"".join(links)}</div>')
    return _after(markdown, "# Mixers\n\n", "\n\n".join(parts) + "\n\n")


def _with_different_descriptions(maps: list[Map]) -> list[Map]:
    """The first map of each description, since the layers of one model have the same."""
    first = {map_.description: map_ for map_ in reversed(maps)}
    return [map_ for map_ in maps if first[map_.description] is map_]


def _before(markdown: str, heading: str, text: str) -> str:
    assert heading in markdown, f"a page without {heading.strip()!r}"
    return markdown.replace(heading, text + heading, 1)


def _after(markdown: str, heading: str, text: str) -> str:
    assert heading in markdown, f"a page without {heading.strip()!r}"
    return markdown.replace(heading, heading + text, 1)
