"""Reads figures back: elements, points of paths, and boxes of texts in pixels."""

import re
import xml.etree.ElementTree as ET

from seqloom.report.figures.labels import width
from seqloom.report.figures.placing import Box
from seqloom.report.figures.svg import SIZE

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [one for one in root.iter(f"{SVG}path") if one.get("class") == name]


def runs(path: ET.Element) -> list[list[tuple[float, float]]]:
    """The points of a path of M and L, one list for each M."""
    return [
        [tuple(map(float, point.removesuffix("h0").split())) for point in part.split("L")]
        for part in path.attrib["d"].split("M")[1:]
    ]


def texts(root: ET.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def boxes(root: ET.Element) -> list[tuple[str, Box]]:
    """Every text that is not turned, with its box; the anchor is that of the text or of the group around it."""
    found = []

    def visit(node: ET.Element, anchor: str, size: float) -> None:
        anchor, size = node.get("text-anchor", anchor), float(node.get("font-size", size))
        if node.tag == f"{SVG}text" and not node.get("transform"):
            wide, x, y = width(node.text or "", size), float(node.attrib["x"]), float(node.attrib["y"])
            left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            found.append((node.text or "", Box(left, y - 0.75 * size, left + wide, y + 0.2 * size)))
        for child in node:
            visit(child, anchor, size)

    visit(root, "start", SIZE)
    return found


def overlapping(root: ET.Element) -> list[tuple[str, str]]:
    """The pairs of texts that share area."""
    all_boxes = boxes(root)
    return [
        (one, other)
        for index, (one, box) in enumerate(all_boxes)
        for other, second in all_boxes[:index]
        if box.meets(second)
    ]


def outside(root: ET.Element) -> list[str]:
    """The texts that leave the view box by more than a pixel."""
    _, _, wide, tall = map(float, root.attrib["viewBox"].split())
    room = Box(-1, -1, wide + 1, tall + 1)
    return [word for word, box in boxes(root) if not box.within(room)]


def literal_colours(svg: str) -> set[str]:
    """The colours that a figure spells out instead of naming a variable."""
    return {value for value in re.findall(r'(?:fill|stroke)="([^"]+)"', svg) if value[:4] not in ("var(", "none")}
