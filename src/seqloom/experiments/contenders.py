"""What is compared: mixers by name with their settings, and models sized to equal another in one quantity.

contender("attention:heads=32")          the settings of a mixer in the preset
sized(peer, mixer, ...)                  the peer's model, resized until it is as large, or as dear, as the mixer's
"""

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any, get_args

from seqloom.analysis.match import By, Equal, Match, match
from seqloom.core.model import ModelConfig
from seqloom.experiments.clock import clock
from seqloom.experiments.contender import Contender, contender
from seqloom.runs.layout import read_json, write_json
from seqloom.training.config import RunConfig, TrainConfig

__all__ = ["Contender", "beside", "contender", "sized"]


def sized(
    peer: Contender,
    own: ModelConfig,
    beside: Contender,
    to: ModelConfig,
    training: TrainConfig,
    *,
    equal: Equal,
    by: By | None = None,
) -> Contender:
    """The model `own` of `peer`, resized to equal the model `to` of `beside`.

    Unless `by` is given, the size moves that has to move least as a ratio: a network squeezed to a width of 1 would be
    no fair rival. ValueError where no size brings them near enough, with what was tried.
    """
    found, refusals = [], []
    for size in (by,) if by else get_args(By):
        try:
            found.append(_match(own, to, training, equal, size))
        except ValueError as error:
            refusals.append(str(error))
    if not found:
        raise ValueError(f"{peer.name} cannot be sized for {beside.name}: {'; '.join(refusals)}")
    least = min(found, key=lambda one: abs(log(one.after / one.before)))
    changes = (*peer.changes, f"model.{least.by}={least.after}")
    return Contender(f"{peer.name}.{equal}-of-{beside.name}", changes, beside.name, str(least))


def beside(
    out: Path,
    contenders: Sequence[Contender],
    configs: Mapping[str, RunConfig],
    peer: Contender,
    own: RunConfig,
    equal: Equal,
    by: By | None = None,
) -> list[Contender]:
    """The peer sized for each contender but itself. Sizes found once are kept: times, measured again, would differ."""
    path = out / "sized.json"
    known: dict[str, dict[str, Any]] = read_json(path) if path.exists() else {}
    found = []
    for each in contenders:
        if each.name == peer.name:
            continue
        key = f"{peer.name} {equal} {by} {each.name}"
        if key not in known:
            model = configs[each.name].model
            made = sized(peer, own.model, each, model, own.training, equal=equal, by=by)
            known[key] = {"name": made.name, "changes": list(made.changes), "matched": made.matched}
            write_json(path, known)
        told = known[key]
        found.append(Contender(told["name"], tuple(told["changes"]), each.name, told["matched"]))
    return found


def _match(own: ModelConfig, to: ModelConfig, training: TrainConfig, equal: Equal, by: By) -> Match:
    if equal == "time":
        return match(own, to, equal=equal, by=by, row=clock(own, to, by, training))
    return match(own, to, equal=equal, by=by)
