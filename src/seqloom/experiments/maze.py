"""T-mazes of growing length: agents that learn by playing, and must keep a cue from the first step to the last.

    study = Maze((agent("gtrxl"), agent("xl"), agent("lstm")), lengths=(10, 20, 30))
    rows = run(study.study, Path("runs/maze")).of(Turned)

    gtrxl    attention with the relative positions of Transformer-XL, norm on the input, and gates of GRU
    xl       the same, as Transformer-XL has it: the norm after each sublayer's sum, and no gates
    lstm     an LSTM in the place of attention; any other mixer likewise, by its kind

All read an episode whole. Without memory the turn is right half of the time; one that never turns has a return of 0.

Source: Parisotto et al., GTrXL, arXiv:1910.06764, whose section 4 compares these three. What differs: the task, the
actor-critic, which stands for V-MPO, and an LSTM that has the feed-forward networks of the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from seqloom.core.seeds import require_count
from seqloom.experiments.contender import Contender, contender
from seqloom.experiments.results import Results
from seqloom.experiments.study import Cell, Row, RunCell, Study
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, of_environment
from seqloom.training.settings import resolve

PRESET = "decision/maze"
BASE = ("training.save_every=1000000", "training.device=cpu")
"""settings of all agents, on top of the preset"""
XL = ("model.mixer.kind=attention", "model.mixer.heads=2", "model.position=transformer_xl")
NAMED = {
    "gtrxl": (*XL, "model.residual=gru"),
    "xl": (*XL, "model.residual=add", "model.norm_place=after"),
}
"""the agents that are more than a mixer, by name"""
RIGHT = 0.95
"""the mean return from which the way counts as learned"""


def agent(text: str) -> Contender:
    """An agent by its name, gtrxl or xl, or a mixer in the place of attention: KIND or KIND:NAME=VALUE,…"""
    if text in NAMED:
        return Contender(text, NAMED[text])
    made = contender(text)
    return Contender(made.name, ("model.residual=add", *made.changes))


@final
class Turned(Row):
    """How well an agent plays after some batches; None where its training `failed`."""

    agent: str
    length: int
    seed: int
    batches: int
    """that it has learned from"""
    batch: int
    """episodes of a batch"""
    dim: int
    depth: int
    parameters: int
    reached: float | None
    """mean return: the share of right turns"""
    steps: float | None
    """mean steps of an episode; the shortest way takes `length` + 1"""
    played: int
    """episodes"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class MazeCell(RunCell):
    """An agent trained in one maze."""

    schema: ClassVar = Turned
    agent: str
    length: int

    def read(self, run: Run, failed: str | None) -> list[Turned]:
        """A row for each time that it was scored."""
        training, model = self.config.training, self.config.layered
        weights = sum(each.numel() for each in self.config.model.build().parameters())
        about: dict[str, Any] = {
            "agent": self.agent,
            "length": self.length,
            "seed": training.seed,
            "batch": training.batch,
            "dim": model.dim,
            "depth": model.depth,
            "parameters": weights,
        }
        if failed is not None:
            return [Turned(**about, batches=0, reached=None, steps=None, played=0, failed=failed)]
        return [
            Turned(**about, batches=row["step"], reached=row["return"], steps=row["steps"], played=row["episodes"])
            for row in read(run.metrics)
            if "held_out" in row
        ]

    def text(self, rows: Sequence[Turned]) -> str:
        """The share of right turns at the end."""
        return rows[-1].failed or f"return {rows[-1].reached:.2f}"


@final
@dataclass(frozen=True)
class Maze:
    """The agents and the lengths; ValueError, in one line, for values that repeat and settings that do not fit."""

    agents: Sequence[Contender]
    lengths: Sequence[int]
    batches: int = 400
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        for what, given in (("agents", [each.name for each in self.agents]), ("lengths", self.lengths)):
            if not given or len(set(given)) < len(given):
                raise ValueError(f"maze needs {what} that differ, not {', '.join(map(str, given)) or 'none'}")
        require_count(self.seeds)
        for length in self.lengths:
            for each in self.agents:
                of_environment(self.config(each, length, 0))

    @property
    def study(self) -> Study:
        """Its cells share nothing but the folder: other agents and lengths may be added to it."""
        return Study("maze", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """All cells, none of which needs another; the shortest mazes of a seed first."""
        yield [
            self._cell(each, length, seed)
            for seed in range(self.seeds)
            for length in sorted(self.lengths)
            for each in self.agents
        ]

    def config(self, agent: Contender, length: int, seed: int) -> RunConfig:
        """The settings of an agent in one maze."""
        own = [f"training.batches={self.batches}", f"training.seed={seed}"]
        return resolve(PRESET, [*BASE, *self.changes, *agent.changes, *own], f"TMaze-{length}")

    def _cell(self, agent: Contender, length: int, seed: int) -> MazeCell:
        config = of_environment(self.config(agent, length, seed))
        return MazeCell(
            name=f"length-{length}/{agent.name}/seed-{seed}",
            config=config,
            identity=identity(config, None),
            allow_drift=True,
            agent=agent.name,
            length=length,
        )
