"""`seqloom list --patterns`: which keys the queries of each mixer look at, in letters. Loads no torch."""

from textwrap import wrap
from typing import Any

from seqloom.cli import registry

LEGEND = (
    "Rows are queries, columns are keys, of 24 tokens.\n"
    "w window or block   d every d-th token   s ends of segments   b another block\n"
    "g global token      r random block       . not looked at"
)
WIDTH = 80
GAP = "  "
BESIDE = 3
"""drawings next to each other in 80 columns"""


def patterns() -> str:
    """Every mixer that has patterns, with a drawing of each."""
    parts = [text(name, pattern) for name, mixer in registry.mixers().items() for pattern in mixer.get("patterns", [])]
    return "\n\n".join([LEGEND, *parts])


def text(name: str, pattern: dict[str, Any]) -> str:
    """One mixer under some settings: which, and the drawings of its heads next to each other."""
    form = "causal" if pattern["causal"] else "bidirectional"
    heads = list(pattern["heads"].items())
    lines = wrap(f"{name} ({form}): {', '.join(pattern['settings'])}", WIDTH, subsequent_indent="  ")
    for first in range(0, len(heads), BESIDE):
        some = heads[first : first + BESIDE]
        lines.append(GAP.join(f"{title:{len(rows[0])}}" for title, rows in some).rstrip())
        lines += [GAP.join(row) for row in zip(*(rows for _, rows in some), strict=True)]
    return "\n".join(lines)
