"""A model that learns from recorded episodes, and the returns that it reaches when it plays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from seqloom.data.episodes import read_episodes
from seqloom.evaluation.playing import play
from seqloom.face import load
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.study import Row, RunCell

STARTS = 10**6
"""the seed of the episodes that trained models play; no recording uses it"""


@final
@dataclass(frozen=True)
class Learner:
    """How a model is conditioned on returns, and the share of the episodes that it learns from."""

    name: str
    returns: str
    best: float = 1.0

    @property
    def changes(self) -> list[str]:
        """The learner as settings of a run."""
        return [f"model.returns={self.returns}", f"training.objective.best={self.best}"]


ASKED = Learner("return asked", "to_go")
LATE = Learner("return asked, rewards at the end", "end")


def cloning(share: float) -> Learner:
    """Behavior cloning of the episodes with the highest returns, a share `share` of all."""
    return Learner(f"cloning, best {share:.0%}", "none", share)


@final
class Reached(Row):
    """The returns that a trained model reached in the episodes that it played; None where its training `failed`."""

    environment: str
    policy: str
    episodes: int
    """recorded episodes, for training and held out"""
    learner: str
    mixer: str
    context: int
    """steps of a window"""
    seed: int
    batches: int
    batch: int
    dim: int
    depth: int
    parameters: int
    held_out: float | None
    """loss per action of held-out episodes"""
    recorded_mean: float
    recorded_highest: float
    asked: float | None
    """the return that was asked for; None for cloning"""
    mean: float | None
    lowest: float | None
    highest: float | None
    error: float | None
    """standard error of the mean"""
    played: int
    """episodes that the model played"""
    findings: tuple[str, ...]
    """the findings that the row belongs to: `little data`, `asked`, `context`, `late rewards`"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class AgentCell(RunCell):
    """A model that is trained on recorded episodes and then plays."""

    schema: ClassVar = Reached
    unplanned: ClassVar = "playing"
    learner: Learner
    mixer: str
    episodes: int
    asked: tuple[tuple[float, tuple[str, ...]], ...]
    """the returns that it is asked for, each with the findings that it belongs to"""
    played: int

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run, and what the model plays."""
        return {**super().settings, "asked": [list(pair) for pair in self.asked], "played": self.played}

    def read(self, run: Run, failed: str | None) -> list[Reached]:
        """One row for each return that is asked for."""
        config, model = self.config.training, self.config.model
        _, environment, policy, *_ = self.config.data.source.split(":")
        recorded = read_episodes(self.config.data.source).returns
        shared: dict[str, Any] = {
            "environment": environment,
            "policy": policy,
            "episodes": self.episodes,
            "learner": self.learner.name,
            "mixer": self.mixer,
            "context": model.context,
            "seed": config.seed,
            "batches": config.batches,
            "batch": config.batch,
            "dim": self.config.layered_model.dim,
            "depth": self.config.layered_model.depth,
            "recorded_mean": float(recorded.mean()),
            "recorded_highest": float(recorded.max()),
            "played": self.played,
        }
        conditioned = self.learner.returns != "none"
        if failed is not None:
            no_scores = dict.fromkeys(("held_out", "mean", "lowest", "highest", "error"))
            return [
                Reached(
                    **shared,
                    **no_scores,
                    parameters=0,
                    asked=asked if conditioned else None,
                    findings=findings,
                    failed=failed,
                )
                for asked, findings in self.asked
            ]
        agent: Any = load(run.folder)
        shared["parameters"] = sum(weights.numel() for weights in agent.parameters())
        shared["held_out"] = next(row["held_out"] for row in reversed(read(run.metrics)) if "held_out" in row)
        scores = play(agent, [asked for asked, _ in self.asked], self.played, seed=STARTS)
        return [
            Reached(
                **shared,
                asked=result.asked if conditioned else None,
                mean=result.mean,
                lowest=min(result.reached),
                highest=max(result.reached),
                error=result.error,
                findings=findings,
            )
            for result, (_, findings) in zip(scores, self.asked, strict=True)
        ]

    def text(self, rows: Sequence[Reached]) -> str:
        """The mean return, when asked for the best one."""
        row = rows[-1]
        return row.failed or f"return {row.mean:.4g}"
