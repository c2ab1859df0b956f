"""Training steps by turns, as the trainer runs them, next to models of plain torch and of fla's layers.

Every race has its baseline in the same process. Times are medians with quartiles of turns, the device waited for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, final

from seqloom.analysis.measure import Timing, race
from seqloom.core.progress import Say, Show
from seqloom.studies.perform import reason
from seqloom.studies.random_batches import random_updates
from seqloom.studies.study import Row
from seqloom.training.captured import chosen_steps
from seqloom.training.config import RunConfig
from seqloom.training.loop import Steps
from seqloom_studies.gpu import peers
from seqloom_studies.gpu.on_card import WARM, OnCard, free_memory, step_counter


@final
class StepTime(Row):
    """The time of a training step of a model, in one way of running it."""

    model: str
    way: str
    graph: str | None
    """capture where the step was replayed from a CUDA graph, none where not; None for a peer"""
    ms: float | None
    """the median; None where it could not run, with the reason"""
    ms_quartiles: tuple[float, float] | None = None
    baseline: str = ""
    ratio: float | None = None
    """of the time of the baseline in the same turn, the median"""
    ratio_quartiles: tuple[float, float] | None = None
    tokens: int
    """of a batch"""
    left_out: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class StepRace(OnCard):
    """The steps of all models in all ways, by turns."""

    schema: ClassVar = StepTime
    baseline: tuple[str, str]
    """model and way"""
    rounds: int
    peers: bool = False
    """whether models of plain torch and fla take part"""
    resolved: dict[tuple[str, str], RunConfig] = field(default_factory=dict)
    """by model and way"""

    @property
    def settings(self) -> dict[str, Any]:
        """As `OnCard`, and the settings of all ways."""
        ways = {" / ".join(key): config.model_dump(mode="json") for key, config in self.resolved.items()}
        return {**super().settings, "ways": ways, "rounds": self.rounds, "peers": self.peers}

    def run(self, folder: Any, say: Say, show: Show) -> Sequence[Row]:
        """A row for each model and way."""
        entries: dict[tuple[str, str], Callable[[], object]] = {}
        trained: dict[tuple[str, str], Steps] = {}
        left_out: dict[tuple[str, str], str] = {}
        for key, make in self._makers(say, trained).items():
            with show(f"{key[0]}, {key[1]}", 1, "steps") as advance:
                try:
                    step = make()
                    for _ in range(WARM):
                        step()
                    entries[key] = step
                except Exception as error:  # of a compiler, or of others' code
                    left_out[key] = reason(error)[:200]
                    say(f"{key[0]}, {key[1]} is left out: {left_out[key]}")
                advance()
        if self.baseline not in entries:
            raise ValueError(f"the baseline does not run: {left_out[self.baseline]}")
        times = race({" / ".join(key): step for key, step in entries.items()}, self.rounds, warm=1)
        del entries
        graphs = {key: steps.graph for key, steps in trained.items()}
        trained.clear()
        free_memory(self.card)
        return [self._row(key, times, graphs, left_out) for key in (*self.resolved, *self._peers())]

    def text(self, rows: Sequence[StepTime]) -> str:
        """The times."""
        return "; ".join(f"{row.model}, {row.way} {row.ms:.4g} ms" for row in rows if row.ms is not None)

    def _makers(self, say: Say, trained: dict[tuple[str, str], Steps]) -> dict[tuple[str, str], Callable[[], Any]]:
        """Functions that make a step, by model and way; our steps are put into `trained`."""

        def ours(key: tuple[str, str], config: RunConfig) -> Callable[[], Any]:
            def make() -> Callable[[], object]:
                steps = chosen_steps(random_updates(config.model, config.training), None, say)
                trained[key] = steps
                return step_counter(steps)

            return make

        makers = {key: ours(key, config) for key, config in self.resolved.items()}
        return makers | self._peers()

    def _peers(self) -> dict[tuple[str, str], Callable[[], Any]]:
        """The models of others, in the sizes of ours."""
        if not self.peers:
            return {}
        device = self.card.device
        makers: dict[tuple[str, str], Callable[[], Any]] = {}
        if "attention" in self.models:
            config = self.models["attention"]
            sizes = (config.layered_model, config.training, device)
            makers["attention", "plain torch"] = partial(peers.attention_step, *sizes, compiled=False)
            makers["attention", "plain torch, compiled"] = partial(peers.attention_step, *sizes, compiled=True)
        if "gated_delta" in self.models:
            config = self.models["gated_delta"]
            makers["gated_delta", "fla's layers"] = partial(
                peers.fla_step, config.layered_model, config.training, device
            )
        return makers

    def _row(
        self,
        key: tuple[str, str],
        times: dict[str, Timing],
        graphs: dict[tuple[str, str], str],
        left_out: dict[tuple[str, str], str],
    ) -> StepTime:
        (model, way), training = key, self.models[key[0]].training
        tokens, baseline = training.batch * self.models[model].model.context, " / ".join(self.baseline)
        graph = graphs.get(key)
        if key in left_out:
            return StepTime(model=model, way=way, graph=graph, ms=None, tokens=tokens, left_out=left_out[key])
        timing = times[" / ".join(key)]
        ratio = timing.over(times[baseline])
        low, high = timing.quartiles
        return StepTime(
            model=model,
            way=way,
            graph=graph,
            ms=1e3 * timing.median,
            ms_quartiles=(1e3 * low, 1e3 * high),
            baseline=baseline,
            ratio=ratio.median,
            ratio_quartiles=ratio.quartiles,
            tokens=tokens,
        )
