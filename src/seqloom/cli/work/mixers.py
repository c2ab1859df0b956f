"""`seqloom list`: all mixers, one of them in full, or which keys they look at. Reads registry.json, not torch."""

import json
from textwrap import wrap
from typing import Any

from seqloom.cli import elsewhere, registry
from seqloom.cli.work.settings import lines
from seqloom.core.config import suggestion
from seqloom.core.table import table

SIZES = "dim 128, context 128"
"""the sizes of the prices in the registry"""
WIDE = ("mixer", "what it is", "causal", "streams", "state", "longest", "selects ahead", "settings")
LEGEND = (
    "Rows are queries, columns are keys, of 24 tokens.\n"
    "w window or block   d every d-th token   s ends of segments   b another block\n"
    "g global token      r random block       . not looked at"
)
WIDTH = 80
GAP = "  "
PER_LINE = 3
"""drawings next to each other in 80 columns"""


def format_mixers(family: str | None = None, *, wide: bool = False, as_json: bool = False) -> str:
    """All mixers, or those of a family: a line each, or everything as one JSON object."""
    if registry.installed_plugins():
        registry.load()
    mixers = registry.mixers()
    families = list(dict.fromkeys(mixer["family"] for mixer in mixers.values()))
    if family is not None and family not in families:
        raise ValueError(f"unknown family {family!r}; {suggestion(family, families)}")
    chosen = {name: mixer for name, mixer in mixers.items() if family in (None, mixer["family"])}
    if as_json:
        return json.dumps(chosen, ensure_ascii=False)
    if wide:
        return table(WIDE, [_wide(name, mixer) for name, mixer in chosen.items()])
    rows = [(name, mixer["family"], mixer["summary"]) for name, mixer in chosen.items()]
    return table(("mixer", "family", "what it is"), rows)


def format_mixer(name: str, *, as_json: bool = False) -> str:
    """One mixer: equation, settings, traits, price, source; or what a name of another package is here.

    ValueError for a name that is unknown to all, with a similar one.
    """
    if name not in registry.mixers():
        registry.load()
    mixers = registry.mixers()
    found = [] if name in mixers else elsewhere.find_all(name)
    if found:
        return json.dumps([line._asdict() for line in found]) if as_json else "\n".join(map(str, found))
    if name not in mixers:
        raise ValueError(f"unknown mixer {name!r}; {suggestion(name, mixers)}")
    mixer = mixers[name]
    if as_json:
        return json.dumps({name: mixer}, ensure_ascii=False)
    parts = [f"{name} ({mixer['family']}): {mixer['about']}", mixer["equation"]]
    parts.append("\n".join(["settings" if mixer["settings"] else "no settings", *lines(mixer["settings"], 1)]))
    parts.append("\n".join(["traits", *(f"  {word}" for word in _traits(mixer["traits"]))]))
    if mixer["price"]:
        parts.append(f"price, {SIZES}\n{_price(mixer['price'])}")
    if mixer["source"]:
        parts.append(f"source\n  {mixer['source']}")
    return "\n\n".join(part for part in parts if part)


def _wide(name: str, mixer: dict[str, Any]) -> tuple[object, ...]:
    """The line of a mixer in the wide list, in the order of `WIDE`."""
    traits = mixer["traits"]
    return (
        name,
        mixer["about"],
        traits["causal"],
        traits["streams"],
        traits["state"],
        traits["longest"] or "any",
        traits["selects_ahead"],
        ", ".join(setting["name"] for setting in mixer["settings"]),
    )


def _traits(traits: dict[str, Any]) -> list[str]:
    longest = "any" if traits["longest"] is None else f"{traits['longest']:,} tokens"
    return [
        f"causal: {traits['causal']}",
        f"streams: {'yes' if traits['streams'] else 'no'}",
        f"state: {traits['state']}",
        f"longest sequence: {longest}",
        f"selects by later tokens: {'yes' if traits['selects_ahead'] else 'no'}",
    ]


def _price(price: dict[str, dict[str, int]]) -> str:
    """The prices of a row and, where the mixer reads on, of a token."""
    heads = {"row": "a row of 128 tokens", "token": "token 128"}
    names = {"total": "arithmetic operations", "params": "parameters", "state": "numbers of state"}
    rows = [(word, *(cost[name] for cost in price.values())) for name, word in names.items()]
    return table(("", *(heads[use] for use in price)), rows)


def patterns() -> str:
    """Every mixer that has patterns, with a drawing of each."""
    drawings = [
        drawing(name, pattern) for name, mixer in registry.mixers().items() for pattern in mixer.get("patterns", [])
    ]
    return "\n\n".join([LEGEND, *drawings])


def drawing(name: str, pattern: dict[str, Any]) -> str:
    """One mixer under some settings: which, and the drawings of its heads next to each other."""
    form = "causal" if pattern["causal"] else "bidirectional"
    heads = list(pattern["heads"].items())
    lines = wrap(f"{name} ({form}): {', '.join(pattern['settings'])}", WIDTH, subsequent_indent="  ")
    for first in range(0, len(heads), PER_LINE):
        group = heads[first : first + PER_LINE]
        lines.append(GAP.join(f"{title:{len(rows[0])}}" for title, rows in group).rstrip())
        lines += [GAP.join(row) for row in zip(*(rows for _, rows in group), strict=True)]
    return "\n".join(lines)
