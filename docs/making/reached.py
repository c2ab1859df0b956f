"""The reach maps of the site: of every mixer as it begins, and of those that somebody trained.

Those of beginnings are made anew when the site is built; they are a function of the code alone. Those of trained mixers
are kept in docs/maps, which `python -m docs.making.trained` writes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from docs.making.tables import table
from seqloom.analysis.reach import reach, span
from seqloom.core.mixer_config import MixerConfig

MAPS = Path(__file__).parents[1] / "maps"
DIM, TOKENS, ROWS = 16, 64, 2
FAINTEST = -6
"""powers of ten below the largest slope that a kept map still tells apart"""
MEANING = {
    "now": "of an output's slopes, on its own token",
    "half": "tokens back within which half of them lie",
    "most": "tokens back within which nine tenths lie",
    "seen": "of the tokens so far, read at a thousandth of the largest slope or more",
}


@final
@dataclass(frozen=True)
class Map:
    """|∂y_t/∂x_s| at [t, s], its name on the page, and of what it is."""

    name: str
    said: str
    found: Tensor


def beginning(config: MixerConfig) -> Map:
    """The map of a mixer as it is drawn, in float64: the same at each call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = config.build(DIM, TOKENS, config.traits.causal != "never").double()
    said = f"by itself with its default settings, seed 0, dim {DIM}, context {TOKENS}; normal inputs, {ROWS} rows"
    return Map("as it begins", said, reach(mixer, TOKENS, rows=ROWS))


def numbers(maps: list[Map]) -> str:
    """A table of Markdown: what each map says in numbers."""
    spans = [span(each.found) for each in maps]
    rows = [(meaning, *(_said(name, getattr(each, name)) for each in spans)) for name, meaning in MEANING.items()]
    return table(("mean over the second half of the outputs", *(each.name for each in maps)), rows)


def kept(kind: str, folder: Path = MAPS) -> list[Map]:
    """The maps of a trained mixer in docs/maps, layer by layer; none where nobody has written any."""
    path = folder / f"{kind}.json"
    if not path.exists():
        return []
    told = json.loads(path.read_text(encoding="utf-8"))
    return [Map(f"trained, layer {each['layer']}", told["said"], _read(each["hundredths"])) for each in told["layers"]]


def write(kind: str, said: str, layers: dict[int, Tensor], origin: dict[str, Any], folder: Path = MAPS) -> Path:
    """Keeps the maps of a trained mixer's layers, in hundredths of a power of ten under the largest slope."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}.json"
    told = json.dumps({"said": said, **origin}, ensure_ascii=False)
    lines = [f'{{"layer": {layer}, "hundredths": [\n{_written(found)}]}}' for layer, found in layers.items()]
    path.write_text(told[:-1] + ', "layers": [\n' + ",\n".join(lines) + "]}\n", encoding="utf-8")
    return path


def _written(found: Tensor) -> str:
    largest = float(found.max())
    if not largest > 0:
        raise ValueError("the map has no slope at all: there is nothing to keep")
    hundredths = (100 * (found / largest).log10()).clamp(min=100 * FAINTEST).round().int()
    return ",\n".join(json.dumps(row[: t + 1], separators=(",", ":")) for t, row in enumerate(hundredths.tolist()))


def _read(rows: list[list[int]]) -> Tensor:
    found = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for t, row in enumerate(rows):
        powers = torch.tensor(row, dtype=torch.float64) / 100
        found[t, : t + 1] = torch.where(powers > FAINTEST, 10**powers, 0.0)
    return found


def _said(name: str, value: float) -> str:
    return f"{100 * value:.0f}%" if name in ("now", "seen") else f"{value:.1f}"
