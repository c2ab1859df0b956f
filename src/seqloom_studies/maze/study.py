"""T-mazes of growing length: agents that learn by playing must remember a cue from the first step to the last.

    study = Maze((agent("gtrxl"), agent("xl"), agent("lstm")), lengths=(10, 20, 30))
    rows = run(study.study, Path("runs/maze")).of(Turned)

    gtrxl    attention with Transformer-XL's relative positions, pre-norm, and GRU gates in place of residual sums
    xl       the same with post-norm and without gates, as in Transformer-XL
    lstm     an LSTM in place of attention; any other mixer by its kind

All agents read a whole episode. Without memory half of the turns are right; an agent that never turns has a return of
0.

Source: Parisotto et al., GTrXL, arXiv:1910.06764, whose section 4 compares these three. What differs: the task; an
actor-critic in place of V-MPO; and the LSTM has the same feed-forward networks as the other agents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from seqloom.core.seeds import require_count
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.candidate import Candidate, parse_candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, require_distinct
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, prepare_run
from seqloom.training.settings import resolve

PRESET = "decision/maze"
BASE = ("training.save_every=1000000", "training.device=cpu")
"""settings of all agents, applied to the preset"""
XL = ("model.mixer.kind=attention", "model.mixer.heads=2", "model.position=transformer_xl")
NAMED = {
    "gtrxl": (*XL, "model.residual=gru"),
    "xl": (*XL, "model.residual=add", "model.norm_place=after"),
}
"""the agents that change more than the mixer, by name"""


def agent(text: str) -> Candidate:
    """An agent by its name, gtrxl or xl, or by the mixer in place of attention: KIND or KIND:NAME=VALUE,…"""
    if text in NAMED:
        return Candidate(text, NAMED[text])
    mixer = parse_candidate(text)
    return Candidate(mixer.name, ("model.residual=add", *mixer.changes))


@final
class Turned(Row):
    """The score of an agent after some batches; None where its training `failed`."""

    agent: str
    length: int
    seed: int
    batches: int
    """batches that it has learned from"""
    batch: int
    """episodes of a batch"""
    dim: int
    depth: int
    parameters: int
    reached: float | None
    """mean return: the share of right turns"""
    steps: float | None
    """mean steps of an episode; at least `length` + 1 are needed"""
    played: int
    """episodes that the agent played for the score"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class MazeCell(RunCell):
    """An agent trained in one maze."""

    schema: ClassVar = Turned
    agent: str
    length: int

    def read(self, run: Run, failed: str | None) -> list[Turned]:
        """A row for each score in the run's metrics."""
        training, model = self.config.training, self.config.layered_model
        parameters = sum(tensor.numel() for tensor in self.config.model.build().parameters())
        shared: dict[str, Any] = {
            "agent": self.agent,
            "length": self.length,
            "seed": training.seed,
            "batch": training.batch,
            "dim": model.dim,
            "depth": model.depth,
            "parameters": parameters,
        }
        if failed is not None:
            return [Turned(**shared, batches=0, reached=None, steps=None, played=0, failed=failed)]
        return [
            Turned(**shared, batches=row["step"], reached=row["return"], steps=row["steps"], played=row["episodes"])
            for row in read(run.metrics)
            if "held_out" in row
        ]

    def text(self, rows: Sequence[Turned]) -> str:
        """The share of right turns at the end."""
        return rows[-1].failed or f"return {rows[-1].reached:.2f}"


@final
@dataclass(frozen=True)
class Maze:
    """The agents and the lengths. ValueError for repeated values and settings that do not fit."""

    agents: Sequence[Candidate]
    lengths: Sequence[int]
    batches: int = 400
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_distinct("maze", {"agents": [agent.name for agent in self.agents], "lengths": self.lengths})
        require_count(self.seeds)
        for length in self.lengths:
            for agent in self.agents:
                prepare_run(self.config(agent, length, 0))

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other agents and lengths may be added."""
        return Study("maze", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another; a seed's shortest mazes come first."""
        yield [
            self._cell(agent, length, seed)
            for seed in range(self.seeds)
            for length in sorted(self.lengths)
            for agent in self.agents
        ]

    def config(self, agent: Candidate, length: int, seed: int) -> RunConfig:
        """The settings of an agent in one maze."""
        varied = [f"training.batches={self.batches}", f"training.seed={seed}"]
        return resolve(PRESET, [*BASE, *self.changes, *agent.changes, *varied], f"TMaze-{length}")

    def _cell(self, agent: Candidate, length: int, seed: int) -> MazeCell:
        config = prepare_run(self.config(agent, length, seed)).config
        return MazeCell(
            name=f"length-{length}/{agent.name}/seed-{seed}",
            config=config,
            identity=identity(config, None),
            allow_drift=True,
            agent=agent.name,
            length=length,
        )
