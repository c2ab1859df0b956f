"""The page of a figure: OUT/NAME.html, one file that needs nothing beside it, and its pictures in OUT/figures."""

import csv
import io
from base64 import b64encode
from collections.abc import Sequence
from gzip import compress
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from seqloom.report.exhibit import Exhibit
from seqloom.report.figures import css, standalone
from seqloom.report.page import HERE, _json, plotly
from seqloom.report.plates.compared import Compared
from seqloom.report.plates.exhibits import exhibits
from seqloom.report.plates.rows import Plate, read
from seqloom.report.plates.table import Value, columns, table_rows


def write(rows: Path) -> Path:
    """Writes the page of a file of rows beside it; returns its path. Errors as `read` has them."""
    plate = read(rows)
    shown = exhibits(plate)
    folder = rows.parent / "figures"
    folder.mkdir(exist_ok=True)
    for panel in (panel for one in shown for panel in one.panels):
        (folder / f"{panel.name}.svg").write_text(standalone(panel.svg), encoding="utf-8")
        (folder / f"{panel.name}.csv").write_text(panel.csv, encoding="utf-8")
    path = rows.with_suffix(".html")
    path.write_text(_html(plate, shown), encoding="utf-8")
    return path


def caption(plate: Plate) -> list[str]:
    """At which size this is, on which text, and what is not done yet: a sentence each."""
    figure = plate.figure
    done, cells = (
        sum(seed.row["finished"] for line in plate.lines for seed in line.seeds),
        sum(len(line.seeds) for line in plate.lines),
    )
    said = [
        f"Reduced: {figure['differs']}." if figure["differs"] else "At the paper's own settings.",
        f"Text: {figure['text']}.",
        f"{figure['seeds']} seed." if figure["seeds"] == 1 else f"{figure['seeds']} seeds.",
    ]
    if figure["floor"] is not None:
        said.append(f"The floor of this text is {figure['floor']:.3f} nats a token.")
    said.append(f"Frequencies of single tokens alone cost {figure['unigram']:.3f}.")
    if done < cells:
        said.append(f"Unfinished: {done:,} of {cells:,} cells are done.")
    return said


def _html(plate: Plate, shown: Sequence[Exhibit]) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    drawing = plotly()
    return environment.get_template("plate.html.jinja").render(
        plate=plate,
        caption=caption(plate),
        exhibits=shown,
        columns=columns(plate),
        beneath=[sentence for sentence in [Compared(plate, "held_out").beneath] if sentence],
        rows=[(line, [(_text(each), _sorted(each)) for each in row]) for line, row in table_rows(plate)],
        csv=_csv(plate),
        style=Markup(css() + (HERE / "style.css").read_text(encoding="utf-8")),
        scripts=[Markup((HERE / name).read_text(encoding="utf-8")) for name in ("page.js", "drawing.js")],
        plotly=None if drawing is None else b64encode(compress(drawing.encode(), mtime=0)).decode(),
        data=_json(shown),
        safe=Markup,
    )


def _text(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        if abs(value) < 0.1:  # a learning rate
            return f"{value:.4g}"
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value


def _sorted(value: Value) -> str:
    return "" if value is None or isinstance(value, str) else str(value)


def _csv(plate: Plate) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["model", *(column.name for column in columns(plate))])
    lines.writerows([line.series, *row] for line, row in table_rows(plate))
    return out.getvalue()
