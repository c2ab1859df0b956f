"""Rotary positions as a config.json of transformers has them: old (`rope_theta`) or new (`rope_parameters`)."""

from typing import Any

from seqloom.models.foreign.values import Values


def rotary(values: Values, base: float = 10000.0, share: float = 1.0) -> dict[str, Any]:
    """The settings of our position. ValueError for angles that depend on the length of the text or are rescaled."""
    new = values.optional("rope_parameters") or {}
    old = values.optional("rope_scaling") or {}
    base = values.get("rope_theta", float, values.get("rotary_emb_base", float, base))
    share = values.get("partial_rotary_factor", float, values.get("rotary_pct", float, share))
    kind = new.get("rope_type", old.get("rope_type", old.get("type", "default")))
    if kind != "default":
        raise ValueError(f"rotary positions of type {kind!r} are not built: only the default ones are")
    position = {
        "kind": "rotary",
        "base": float(new.get("rope_theta", base)),
        "share": float(new.get("partial_rotary_factor", share)),
    }
    return {name: value for name, value in position.items() if name != "share" or value != 1.0}
