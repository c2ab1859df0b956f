"""Three figures of the source texts, measured here.

    gradients    √(mean over rows of |∂y_T/∂x_{T-d}|²), by the distance d; mixers with their initial weights
    features     mean of (φ(q)·φ(k) e^{-q·k} - 1)², by the number of directions; q, k of N(0, 1/√K)
    times        ms of a forward and backward pass over one row, by its length; medians of a race at each length

    study = figures(("gradients",), [parse_candidate("lstm"), parse_candidate("s4")])
    rows = run(study, Path("runs/figures")).of(Point)

Source: gradients: the vanishing gradients of seed 004, section III-A; features: Choromanski et al., arXiv:2009.14794,
Figure 4, which is Figure 24 of seed 002; times: their Figure 3, which is Figure 7 of seed 004. What differs: sizes, and
that the text's "X" (attention that returns its values) is the mixer `identity`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.analysis.measure import race
from seqloom.analysis.reach import reach
from seqloom.core.mixer import Mixer
from seqloom.core.progress import Say, Show
from seqloom.ops.random_features import draws
from seqloom.ops.random_features.features import hyperbolic_log, softmax_log, trigonometric
from seqloom.runs.code import Codes, codes
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, Study, require_distinct
from seqloom.studies.timed_functions import sublayer
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve

FIGURES = ("gradients", "features", "times")
WIDTH = 16
"""K, the channels of a query"""
VECTORS, DRAWS = 64, 20
"""queries and keys of a draw of directions, and draws"""
ROWS = 4
ROUNDS = 3
"""of a race"""


@final
class Point(Row):
    """One point of one line of a figure."""

    figure: str
    line: str
    x: float
    y: float


@final
@dataclass(frozen=True)
class FigureCell(Cell):
    """One line of a figure, or all lines of `times`, which are timed in turns."""

    schema: ClassVar = Point
    figure: str
    configs: dict[str, RunConfig]
    """settings of the models that the mixers are of, by the name of the line"""
    sizes: tuple[int, ...]
    """the tokens of a row, or the numbers of directions"""

    @property
    @override
    def settings(self) -> dict[str, Any]:
        models = {name: config.model_dump(mode="json")["model"] for name, config in self.configs.items()}
        return {"figure": self.figure, "models": models, "sizes": list(self.sizes)}

    @property
    @override
    def code(self) -> Codes:
        return {key: value for config in self.configs.values() for key, value in codes(config).items()}

    @override
    def run(self, folder: Path, say: Say, show: Show) -> list[Point]:
        """The points of the lines."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return list(MEASURES[self.figure](self))

    @override
    def text(self, rows: Sequence[Point]) -> str:
        return f"{len(rows)} points"

    def mixer(self, name: str, tokens: int) -> Mixer:
        """The mixer of a line, for rows of so many tokens."""
        model = self.configs[name].layered_model
        (config,) = set(model.pattern)
        return config.build(model.dim, tokens, depth=1)


def figures(
    names: Sequence[str], mixers: Sequence[Candidate], *, length: int = 128, changes: Sequence[str] = ()
) -> Study:
    """The study of these figures. ValueError for unknown names, repeated mixers, and settings that do not fit."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown or not names:
        raise ValueError(f"figures are {', '.join(FIGURES)}, not {', '.join(unknown) or 'none'}")
    require_distinct("figures", {"mixers": [mixer.name for mixer in mixers]})
    configs = {mixer.name: resolve("tiny", ["model.dim=64", *changes, *mixer.changes]) for mixer in mixers}

    def cells() -> Iterator[FigureCell]:
        if "gradients" in names:
            for name, config in configs.items():
                yield FigureCell(f"gradients/{name}", "gradients", {name: config}, (length,))
        if "features" in names:
            yield FigureCell("features/all", "features", {}, tuple(2**power for power in range(3, 10)))
        if "times" in names:
            lengths = tuple(2**power for power in range(6, max(6, length.bit_length() - 1) + 1))
            yield FigureCell("times/all", "times", configs, lengths)

    def stages(results: Results) -> Iterator[list[Cell]]:
        yield list(cells())

    return Study("figures", {}, stages)


def _gradients(cell: FigureCell) -> Iterator[Point]:
    (name,), (tokens,) = cell.configs, cell.sizes
    slopes = reach(cell.mixer(name, tokens).double(), tokens, rows=ROWS)[-1].flip(0)
    for distance, slope in enumerate(slopes.tolist()):
        yield Point(figure="gradients", line=name, x=distance, y=slope)


def _times(cell: FigureCell) -> Iterator[Point]:
    for tokens in cell.sizes:
        runs = {
            name: sublayer(mixer := cell.mixer(name, tokens), torch.randn(1, tokens, mixer.dim))
            for name in cell.configs
        }
        for name, timing in race(runs, ROUNDS).items():
            yield Point(figure="times", line=name, x=tokens, y=1000 * timing.median)


def _features(cell: FigureCell) -> Iterator[Point]:
    for name, features in KERNELS.items():
        for way, draw in {"independent": draws.draw_independent, "orthogonal": draws.orthogonal}.items():
            for count in cell.sizes:
                yield Point(figure="features", line=f"{name}, {way}", x=count, y=measure_error(features, draw, count))


def measure_error(features: "Features", draw: draws.Draw, count: int) -> float:
    """The mean square of the relative error of the kernel e^{q·k}, estimated along `count` directions."""
    generator = torch.Generator("cpu").manual_seed(count)
    q, k = (
        torch.randn(DRAWS, VECTORS, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.25 for _ in range(2)
    )
    w = draw(DRAWS, count, WIDTH, generator)
    estimated = features(q, k, w)
    errors = estimated * (-(q * k).sum(-1)).exp() - 1
    return float(errors.square().mean())


def _positive(logarithm: Callable[[Tensor, Tensor], Tensor]) -> "Features":
    def estimate(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        of_q, of_k = (logarithm(x[None], w)[0].exp() for x in (q, k))
        return (of_q * of_k).sum(-1)

    return estimate


def _trigonometric(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    of_q, of_k = (trigonometric(x[None], w)[0] for x in (q, k))
    return (of_q * of_k).sum(-1) * ((q.square() + k.square()).sum(-1) / 2).exp()


Features = Callable[[Tensor, Tensor, Tensor], Tensor]
"""estimates of e^{q·k} (N, V) of q, k (N, V, K) along directions w (N, R, K)"""
KERNELS: dict[str, Features] = {
    "positive": _positive(softmax_log),
    "hyperbolic": _positive(hyperbolic_log),
    "trigonometric": _trigonometric,
}
MEASURES: dict[str, Callable[[FigureCell], Iterator[Point]]] = {
    "gradients": _gradients,
    "features": _features,
    "times": _times,
}
