"""Decision Transformers next to behavior cloning: the runs for the four findings that seed 002 lists.

    study = Agents(("CartPole-v1:mixed",), [contender("attention"), contender("he")], (10, 100), contexts=(1, 10))
    rows = run(study.study, Path("runs/agents")).of(Reached)

    little data   reached return, when asked for the best one, by number of episodes; next to cloning of the best X %
    asked         reached return by the return that is asked for, from the lowest recorded one to the highest
    context       reached return, when asked for the best one, by the number of steps in a window
    late rewards  as `asked`, where all rewards come at the end of an episode (`model.returns=end`)

A run serves every finding that its settings fit; the field `findings` of a row lists them. Every seed records its own
episodes, so that seeds differ in their data too. The returns that models are asked for span those of the first seed's
largest recording.

Source: Chen et al., Decision Transformer, arXiv:2106.01345: section 5.1 (cloning of the best X %, little data), 5.2
(returns), 5.3 (context) and 5.6 (late rewards). What differs: environments and sizes, and no learning by values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from seqloom.core.seeds import require_count
from seqloom.data.episodes import PREFIX, read_episodes
from seqloom.models.decision_config import DecisionConfig
from seqloom.report.charts.chart import filename
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Study, folder_name, require_distinct
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, prepare_run
from seqloom.training.settings import resolve
from seqloom_studies.agents.cell import ASKED, LATE, AgentCell, Learner, cloning

PRESET = "decision/cartpole"
BASE = (
    *("model.dim=32", "model.ffn=128", "model.depth=1", "model.std=0.2", "model.context=10"),
    *("training.batch=64", "training.lr=0.004", "training.evaluate_every=0", "training.save_every=1000000"),
    "training.device=cpu",
)
"""settings of all models, applied to the preset"""


@final
@dataclass(frozen=True)
class Agents:
    """The sources of episodes (ENV:POLICY), the mixers, and what is varied. ValueError for what does not fit."""

    sources: Sequence[str]
    mixers: Sequence[Candidate]
    episodes: Sequence[int] = (10, 30, 100, 300)
    contexts: Sequence[int] = (1, 2, 5, 10, 20, 50)
    shares: Sequence[float] = (0.1, 1.0)
    """shares of the episodes, those with the highest returns, that are cloned"""
    asked: int = 6
    """the number of returns that models are asked for"""
    played: int = 20
    """episodes that are played for each return"""
    batches: int = 300
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [mixer.name for mixer in self.mixers]
        lists = {"sources": self.sources, "mixers": names, "episodes": self.episodes, "contexts": self.contexts}
        require_distinct("agents", {**lists, "shares": self.shares})
        require_count(self.seeds)
        for source in self.sources:
            if source.count(":") != 1 or not all(source.split(":")):
                raise ValueError(f"{source[:100]}: episodes are named ENV:POLICY here, as CartPole-v1:mixed")
        if min(self.episodes) < 2:
            raise ValueError("agents needs at least 2 episodes: one of them is held out")
        if self.asked < 2 or self.played < 1:
            raise ValueError(f"at least 2 returns are asked for in at least 1 episode, not {self.asked}, {self.played}")
        for mixer in self.mixers:
            for learner in (ASKED, *map(cloning, self.shares)):
                self.config(self.sources[0], mixer, learner, self.episodes[0], self.contexts[0], 0)

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other sources and mixers may be added."""
        return Study("agents", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another; those of a seed come before those of the next."""
        yield [
            self._cell(source, mixer, learner, count, context, seed, findings)
            for seed in range(self.seeds)
            for source in self.sources
            for (learner, count, context), findings in self._runs.items()
            for mixer in self.mixers
        ]

    def config(
        self, source: str, mixer: Candidate, learner: Learner, episodes: int, context: int, seed: int
    ) -> RunConfig:
        """The settings of one run."""
        varied = [f"model.context={context}", f"training.batches={self.batches}", f"training.seed={seed}"]
        changes = [*BASE, *self.changes, *mixer.changes, *learner.changes, *varied]
        return resolve(PRESET, changes, f"{PREFIX}:{source}:{episodes}:{seed}")

    @cached_property
    def context(self) -> int:
        """The steps of a window in runs that do not vary them."""
        return resolve(PRESET, [*BASE, *self.changes]).model.context

    @cached_property
    def _runs(self) -> dict[tuple[Learner, int, int], tuple[str, ...]]:
        """The findings that each run belongs to, by learner, number of episodes and context."""
        runs: dict[tuple[Learner, int, int], tuple[str, ...]] = {}
        largest = max(self.episodes)
        usual_context = self.context
        runs[ASKED, largest, usual_context] = ("asked", "late rewards")
        runs[LATE, largest, usual_context] = ("late rewards",)
        for learner in (ASKED, *map(cloning, self.shares)):
            for count in self.episodes:
                runs[learner, count, usual_context] = (*runs.get((learner, count, usual_context), ()), "little data")
        for context in self.contexts:
            runs[ASKED, largest, context] = (*runs.get((ASKED, largest, context), ()), "context")
        return runs

    def _cell(
        self,
        source: str,
        mixer: Candidate,
        learner: Learner,
        count: int,
        context: int,
        seed: int,
        findings: tuple[str, ...],
    ) -> AgentCell:
        """The run of one combination, and the returns that its model is asked for."""
        config = prepare_run(self.config(source, mixer, learner, count, context, seed)).config
        assert isinstance(config.model, DecisionConfig)
        asked = self._target_returns(source)
        return_findings = tuple(finding for finding in findings if finding in ("asked", "late rewards"))
        lower_returns = [(target, return_findings) for target in asked[:-1]] if return_findings else []
        folder = f"{folder_name(source)}/{filename(learner.name)}/episodes-{count}"
        return AgentCell(
            name=f"{folder}/context-{context}/{mixer.name}/seed-{seed}",
            config=config,
            identity=identity(config, None),
            allow_drift=True,
            learner=learner,
            mixer=mixer.name,
            episodes=count,
            asked=(*lower_returns, (asked[-1], findings)),
            played=self.played,
        )

    def _target_returns(self, source: str) -> list[float]:
        """Returns that models are asked for, from the lowest to the highest in the first seed's largest recording."""
        returns = read_episodes(f"{PREFIX}:{source}:{max(self.episodes)}:0").returns
        low, high = float(returns.min()), float(returns.max())
        return list(dict.fromkeys(float(f"{target:.6g}") for target in np.linspace(low, high, self.asked)))
