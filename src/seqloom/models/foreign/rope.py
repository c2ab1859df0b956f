"""Rotary positions as a config.json of transformers has them: old (`rope_theta`) or new (`rope_parameters`)."""

from typing import Any, final

from seqloom.models.decoder import DecoderConfig
from seqloom.models.foreign.values import Values
from seqloom.positions.rotary import RotaryConfig


def rotary(values: Values, base: float = 10000.0, share: float = 1.0) -> dict[str, Any]:
    """The settings of our position. ValueError for angles that depend on the length of the text (yarn, dynamic)."""
    new = values.optional("rope_parameters") or {}
    old = values.optional("rope_scaling") or {}
    base = values.get("rope_theta", float, values.get("rotary_emb_base", float, base))
    share = values.get("partial_rotary_factor", float, values.get("rotary_pct", float, share))
    kind = new.get("rope_type", old.get("rope_type", old.get("type", "default")))
    if kind not in ("default", "linear", "llama3"):
        raise ValueError(f"rotary positions of type {kind!r} are not built: default, linear and llama3 are")
    position: dict[str, Any] = {
        "kind": "rotary",
        "base": float(new.get("rope_theta", base)),
        "share": float(new.get("partial_rotary_factor", share)),
    }
    scaling = _Scaling({**old, **new})
    if kind != "default":
        position["stretch"] = float(scaling["factor"])
    if kind == "llama3":
        position["trained"] = int(scaling["original_max_position_embeddings"])
        position["slow"], position["fast"] = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    return {name: value for name, value in position.items() if name != "share" or value != 1.0}


def describe_rotary(config: DecoderConfig) -> dict[str, Any]:
    """Their settings for the position of a model. ValueError where it is not rotary."""
    position = config.position
    if not isinstance(position, RotaryConfig):
        raise ValueError(f"the family has rotary positions, and the model {position.kind}")
    settings: dict[str, Any] = {"rope_type": "default", "rope_theta": position.base}
    if position.share != 1:
        settings["partial_rotary_factor"] = position.share
    if position.stretch != 1:
        settings |= {"rope_type": "linear", "factor": position.stretch}
    if position.trained is not None:
        settings |= {"rope_type": "llama3", "original_max_position_embeddings": position.trained}
        settings |= {"low_freq_factor": position.slow, "high_freq_factor": position.fast}
    return {"rope_parameters": settings}


@final
class _Scaling(dict[str, Any]):
    """Settings of a scaling; ValueError, which names it, where one is missing."""

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"the scaling of the rotary positions lacks {name!r}")
