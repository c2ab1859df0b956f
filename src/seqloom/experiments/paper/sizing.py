"""Attention resized to equal another model of the grid.

The width of its feed-forward network moves, at the depth it has or, where no width is small enough, with a layer fewer,
and so on; `dim`, which moves embeddings and head too, only where that fails. A measured time is saved in
OUT/sized.json: a second measurement would give another one, and with it other settings for cells that have been
trained.
"""

from dataclasses import dataclass
from typing import Any, final

from seqloom.analysis.match import By, Equal
from seqloom.experiments.contenders import contender, sized
from seqloom.experiments.paper.grid import Grid
from seqloom.runs.layout import make_folder, read_json, write_json


@final
@dataclass(frozen=True)
class Resized:
    """The settings that make the peer equal, and what moved in words; no settings where nothing does."""

    changes: tuple[str, ...]
    says: str


def resized(grid: Grid, peer: str, target: str, equal: Equal) -> Resized:
    """`peer` made equal to `target`; where no size reaches that quantity, why not."""
    path = grid.out / "sized.json"
    known: dict[str, dict[str, Any]] = read_json(path) if path.exists() else {}
    configs = [grid.config(grid.model(text)) for text in (peer, target)]
    sizes = ":".join(str(getattr(configs[1].model, name)) for name in ("dim", "depth", "context", "ffn", "vocab"))
    key = f"{peer} {equal} {target} {sizes}"
    if key not in known:
        known[key] = _search(grid, peer, target, equal)
        if equal == "time":
            make_folder(grid.out)
            write_json(path, known)
    return Resized(tuple(known[key]["changes"]), known[key]["says"])


def _search(grid: Grid, peer: str, target: str, equal: Equal) -> dict[str, Any]:
    to, refusals = grid.config(grid.model(target)), []
    depth = grid.config(grid.model(peer)).model.depth
    ways: list[tuple[By, int]] = [*(("ffn", layers) for layers in range(depth, 0, -1)), ("dim", depth)]
    for by, layers in ways:
        fewer = () if layers == depth else (f"model.depth={layers}",)
        mixer, own = contender(peer), grid.config(grid.model(peer, *fewer))
        try:
            made = sized(mixer, own.model, contender(target), to.model, own.training, equal=equal, by=by)
        except ValueError as error:
            refusals.append(str(error))
        else:
            first = f"depth {depth} → {layers}; " if fewer else ""
            return {"changes": [*fewer, *made.changes[len(mixer.changes) :]], "says": f"{first}{made.matched}"}
    return {"changes": [], "says": refusals[0]}
