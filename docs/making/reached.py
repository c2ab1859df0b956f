"""The reach maps of the site: of every mixer as it is initialized, and of trained ones.

Maps of initialized mixers are a function of the code alone and are computed when the site is built. Those of trained
mixers are in docs/maps, which `python -m docs.making.trained` writes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from seqloom.analysis.reach import reach, span
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.table import markdown
from seqloom.report.charts import draw
from seqloom.report.charts import reach as charts

MAPS = Path(__file__).parents[1] / "maps"
DIM, TOKENS, ROWS = 16, 64, 2
FAINTEST = -6
"""the power of ten, relative to the largest derivative, up to which a stored derivative counts as 0"""
MEANING = {
    "now": "share of an output's derivatives that is on the input at the same position",
    "half": "tokens back that hold half of an output's derivatives",
    "most": "tokens back that hold nine tenths of them",
    "seen": "share of earlier inputs with at least a thousandth of the largest derivative",
}


@final
@dataclass(frozen=True)
class Map:
    """|∂y_t/∂x_s| at [t, s], with its name on the page and a description of the mixer and its inputs."""

    name: str
    description: str
    slopes: Tensor

    def svg(self, kind: str) -> str:
        """The map of that mixer as an SVG file. ValueError where all derivatives are 0."""
        return draw.svg(charts.chart(self.slopes.tolist(), f"{kind}, {self.name}", self.description), width=300)

    @property
    def thumbnail(self) -> bytes:
        """The map alone, one pixel per derivative: a PNG file. ValueError where all derivatives are 0."""
        return charts.thumbnail(self.slopes.tolist())


def initial_map(config: MixerConfig) -> Map:
    """The map of a mixer as it is initialized, in float64, with a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = config.build(DIM, TOKENS, config.traits.causal != "never").double()
    description = (
        f"by itself with its default settings, seed 0, dim {DIM}, context {TOKENS}; normal inputs, {ROWS} rows"
    )
    return Map("at initialization", description, reach(mixer, TOKENS, rows=ROWS))


def numbers(maps: list[Map]) -> str:
    """A table of Markdown with the distances and shares of each map."""
    spans = [span(map_.slopes) for map_ in maps]
    rows = [
        (meaning, *(_shown(name, getattr(span_of_map, name)) for span_of_map in spans))
        for name, meaning in MEANING.items()
    ]
    return markdown(("mean over the second half of the outputs", *(map_.name for map_ in maps)), rows)


def trained_maps(kind: str, folder: Path = MAPS) -> list[Map]:
    """The maps of a trained mixer in docs/maps, layer by layer; none where no file was written."""
    path = folder / f"{kind}.json"
    if not path.exists():
        return []
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [
        Map(f"trained, layer {layer['layer']}", stored["description"], _read(layer["hundredths"]))
        for layer in stored["layers"]
    ]


def write(kind: str, description: str, layers: dict[int, Tensor], origin: dict[str, Any], folder: Path = MAPS) -> Path:
    """Stores the maps of a trained mixer's layers: 100 · log10 of each derivative over the largest one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}.json"
    header = json.dumps({"description": description, **origin}, ensure_ascii=False)
    lines = [f'{{"layer": {layer}, "hundredths": [\n{_written(slopes)}]}}' for layer, slopes in layers.items()]
    path.write_text(header[:-1] + ', "layers": [\n' + ",\n".join(lines) + "]}\n", encoding="utf-8")
    return path


def _written(slopes: Tensor) -> str:
    largest = float(slopes.max())
    if not largest > 0:
        raise ValueError("all derivatives of the map are 0: there is nothing to store")
    hundredths = (100 * (slopes / largest).log10()).clamp(min=100 * FAINTEST).round().int()
    return ",\n".join(json.dumps(row[: t + 1], separators=(",", ":")) for t, row in enumerate(hundredths.tolist()))


def _read(rows: list[list[int]]) -> Tensor:
    slopes = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for t, row in enumerate(rows):
        powers = torch.tensor(row, dtype=torch.float64) / 100
        slopes[t, : t + 1] = torch.where(powers > FAINTEST, 10**powers, 0.0)
    return slopes


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.0f}%" if name in ("now", "seen") else f"{value:.1f}"
