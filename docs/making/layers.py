"""Draws the folders of the library by the layers of the import contract, as docs/images/layers.svg.

    layers = the first contract of type `layers` in pyproject.toml, the highest first
    a row  = a layer; folders of one layer, which do not import each other, stand side by side

A folder is named with the first sentence of its docstring. `make pages` draws it.
"""

import ast
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/images/layers.svg"
WIDTH, LEFT, GAP, LINE, PADDING = 860, 60, 8, 16, 10
"""pixels: of the picture, of the arrow beside it, between boxes, of a line of text, and inside a box"""
LETTER = 5.9
"""pixels of a letter on average, which decide where a line is broken"""
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .name { font-weight: 600 }
.about { font-size: 12px; fill: #57606a }
rect { fill: #f6f8fa; stroke: #d0d7de } path { stroke: #57606a; fill: none } marker path { fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8eb } .about { fill: #9da7b3 } rect { fill: #1b2129; stroke: #30363e }
  path { stroke: #9da7b3 } marker path { fill: #9da7b3 }
}"""


def layers(project: str) -> list[list[str]]:
    """The modules of each layer, the highest first, of the text of a pyproject.toml."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    contract = next(contract for contract in contracts if contract["type"] == "layers")
    return [[module.strip() for module in layer.split("|")] for layer in contract["layers"]]


def about(module: str) -> str:
    """The first sentence of a module's docstring, as far as it is in the first line."""
    path = ROOT / "src" / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first_line = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return first_line.partition(". ")[0].replace("`", "").rstrip(".;")


def picture(rows: list[list[str]]) -> str:
    """The SVG of these layers."""
    parts, y = [], 1
    for row in rows:
        width = (WIDTH - 1 - LEFT - GAP * (len(row) - 1)) // len(row)
        texts = [wrap(about(module), int((width - 2 * PADDING) / LETTER)) for module in row]
        height = LINE * (1 + max(map(len, texts))) + PADDING + 4
        for n, (module, lines) in enumerate(zip(row, texts, strict=True)):
            parts.append(_box(LEFT + n * (width + GAP), y, width, height, module.removeprefix("seqloom."), lines))
        y += height + GAP
    height = y - GAP + 1
    arrow = f'<path d="M 34 4 V {height - 10}" stroke-width="1.5" marker-end="url(#head)"/>'
    turned = f'transform="rotate(-90 22 {height // 2})" x="22" y="{height // 2}" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f"<desc>The folders of seqloom in {len(rows)} layers; each imports only what lies below it.</desc>"
        f"<style>{STYLE}</style>"
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="4" refY="4" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z"/></marker></defs>'
        f'{arrow}<text class="about" {turned}>imports point down</text>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _box(x: int, y: int, width: int, height: int, name: str, lines: list[str]) -> str:
    """A folder with its name and what it holds."""
    texts = [
        f'<text class="about" x="{x + PADDING}" y="{y + PADDING + LINE * (n + 1) + 8}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    ]
    heading = f'<text class="name" x="{x + PADDING}" y="{y + PADDING + 10}">{escape(name)}</text>'
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>{heading}{"".join(texts)}'


def write() -> None:
    """Draws the layers of this repository's pyproject.toml."""
    PICTURE.write_text(picture(layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    write()
