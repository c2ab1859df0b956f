"""A figure as a file of its own: with its title on top, and colours that any viewer understands."""

import re
from html import unescape

from seqloom.report.figures.labels import shortened
from seqloom.report.figures.palette import DARK, LIGHT
from seqloom.report.figures.svg import SIZE, coordinate, text

_HEAD = 30.0  # pixels for the title


def standalone(svg: str) -> str:
    """The file: light colours written out, and a style that replaces them where the reader's system is dark.

    Many viewers and word processors know no CSS variables; they show the light colours. The style finds a colour by its
    spelling, which is unique in `palette`. Errors: ValueError where `svg` is no figure of this package.
    """
    found = re.match(
        r'(<svg [^>]*?)viewBox="0 0 (\S+) (\S+)" width="100%"([^>]*>)(<title[^>]*>)(.*?)</title>', svg, re.S
    )
    if not found:
        raise ValueError("standalone takes the <svg> element that lines, points or heat returned")
    opening, width, height, attributes, tag, title = found.groups()
    wide, high = float(width), float(height) + _HEAD
    head = shortened(unescape(title), wide - 24, SIZE * 1.1)
    style = f'font-size="{SIZE * 1.1:.4g}" font-weight="600"'
    size = f'viewBox="-10 {coordinate(-_HEAD)} {coordinate(wide + 20)} {coordinate(high + 10)}"'
    paper = f'<rect x="-10" y="{coordinate(-_HEAD)}" width="{coordinate(wide + 20)}" height="{coordinate(high + 10)}" '
    body = (
        f'{opening}{size} width="100%" height="100%"{attributes}{tag}{title}</title><style>{_style()}</style>'
        f'{paper}fill="var(--paper)"/>'
        f"{text(2, -9, head, style)}"
        f"{svg[found.end() :]}"
    )
    written = re.sub(r"var\(--([\w-]+)\)", lambda name: LIGHT.get(name[1], name[0]), body)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{written}\n'


def _style() -> str:
    dark = "".join(
        f'[fill="{light}"]{{fill:{DARK[name]}}}[stroke="{light}"]{{stroke:{DARK[name]}}}'
        for name, light in LIGHT.items()
    )
    paper = "svg{{background:{}}}".format  # beyond the figure, where the window has another shape
    dark += paper(DARK["paper"])
    return f"{paper(LIGHT['paper'])}@media screen and (prefers-color-scheme: dark){{{dark}}}"
