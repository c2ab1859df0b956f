"""`seqloom list`: the mixers in 80 columns, or one of them whole. Reads registry.json, and loads no torch."""

import json
from typing import Any

from seqloom.cli import registry
from seqloom.cli.settings_text import lines
from seqloom.core.config import near
from seqloom.core.table import table

SIZES = "dim 128, context 128"
"""the sizes of the prices in the registry"""


def listed(family: str | None = None, *, wide: bool = False, as_json: bool = False) -> str:
    """All mixers, or those of a family: a line each, or everything as one JSON object."""
    known = registry.mixers()
    families = list(dict.fromkeys(mixer["family"] for mixer in known.values()))
    if family is not None and family not in families:
        raise ValueError(f"unknown family {family!r}; {near(family, families)}")
    chosen = {name: mixer for name, mixer in known.items() if family in (None, mixer["family"])}
    if as_json:
        return json.dumps(chosen, ensure_ascii=False)
    if wide:
        return table(WIDE, [_wide(name, mixer) for name, mixer in chosen.items()])
    rows = [(name, mixer["family"], mixer["summary"]) for name, mixer in chosen.items()]
    others = {} if family else {name: of for name, of in registry.installed().items() if name not in known}
    rows += [(name, "installed", f"of the package {of}"[:40]) for name, of in others.items()]
    return table(("mixer", "family", "what it is"), rows)


def shown(name: str, *, as_json: bool = False) -> str:
    """One mixer: equation, settings, traits, price, source. ValueError for an unknown one, with a similar name."""
    if name not in registry.mixers():
        registry.load()
    known = registry.mixers()
    if name not in known:
        raise ValueError(f"unknown mixer {name!r}; {near(name, known)}")
    mixer = known[name]
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


WIDE = ("mixer", "what it is", "causal", "streams", "state", "longest", "selects ahead", "settings")


def _wide(name: str, mixer: dict[str, Any]) -> tuple[object, ...]:
    traits = mixer["traits"]
    can = (traits["causal"], traits["streams"], traits["state"], traits["longest"] or "any", traits["selects_ahead"])
    return (name, mixer["about"], *can, ", ".join(setting["name"] for setting in mixer["settings"]))


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
