"""Probe: questions of one skill (`seqloom.data.probes`), answered where they are asked.

    y = logits of the model over the row                                       an answer at each position
    y_t = W (z_s + MLP([z_s, e_t])) + b,   s = summary, t > s                  where one position alone may answer
    loss = the mean cross entropy of the questions                             nats per question

z: the model's stream after its last layer; e: an embedding of the position that is asked for; W, b: the model's output.
Source: the decoder of MAD's compression task, arXiv:2403.17844, is an MLP over the sum of z and a sinusoidal e.
"""

import json
from functools import cached_property
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.extras import Extras
from seqloom.core.layered import require_layers
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Check, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.shapes import Logits
from seqloom.data.config import DataConfig
from seqloom.data.probes import HARDEST, Probe, probe
from seqloom.data.tokens import Tokens
from seqloom.evaluation.answers import score
from seqloom.evaluation.replayed import Replayed
from seqloom.evaluation.scores import widen_logits
from seqloom.training.objectives.config import ObjectiveConfig

ROWS = 1024
"""rows of questions to a trained model"""
CHECKED = 512
"""rows of the questions that check a model during training, which are different from those of the score"""
CHECK = 100
"""steps between looks at whether there is anything left to learn"""
SOLVED = 0.999
"""accuracy at which training ends; a higher one could not be distinguished from it by `CHECKED` rows"""
IGNORED = -100
"""a target that costs nothing: cross_entropy's own"""


@final
class ProbeConfig(ObjectiveConfig):
    """Trains on the questions of one probe, without a text."""

    kind: Literal["probe"] = "probe"
    probe: str = Field("mqar", description="the probe, e.g. mqar or mqar:pairs=8")
    difficulty: int = Field(1, ge=1, le=HARDEST, description="difficulty level: each doubles what must be remembered")
    test: str | None = Field(
        None,
        min_length=1,
        description="settings of the test rows, e.g. length=160; unset: those of training",
    )
    solved: float = Field(SOLVED, gt=0, le=1, description="accuracy at which training ends")
    uses_length: ClassVar = True
    later: ClassVar = ("test", "solved")

    @model_validator(mode="after")
    def _check_name(self) -> "ProbeConfig":
        if self.question_probe.vocab != self.questions.vocab:
            raise ValueError(f"test={self.test} has other tokens than {self.probe}: change lengths alone")
        return self

    @cached_property
    def questions(self) -> Probe:
        """The probe with its settings at this difficulty."""
        return probe(self.probe, self.difficulty)

    @cached_property
    def question_probe(self) -> Probe:
        """The rows that the trained model is asked about."""
        if self.test is None:
            return self.questions
        return probe(f"{self.probe}{',' if ':' in self.probe else ':'}{self.test}", self.difficulty)

    @override
    def data_identity(self, data: DataConfig) -> str:
        """The probe with all its settings."""
        return f"{self.questions.name} {json.dumps(self.questions.model_dump(mode='json'), sort_keys=True)}"

    @override
    def size_model(self, model: ModelConfig) -> ModelConfig:
        """As many ids, and as many tokens of context, as the longest rows have."""
        context = max(reads(self.questions), reads(self.question_probe))
        return model.model_copy(update={"vocab": self.questions.vocab, "context": context})

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "ProbeObjective":
        return ProbeObjective(
            self.questions, require_layers(model, "a probe").dim, rows, data.seed, self.question_probe, self.solved
        )

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> "ProbeObjective":
        """Its own questions, which are drawn anyway."""
        return self.build(model, DataConfig(source="noise"), rows, None)


def reads(probe: Probe) -> int:
    """Tokens of a row that a model reads: all of them, or those up to the summary."""
    return probe.row_tokens if probe.summary is None else probe.summary + 1


@final
class ProbeObjective(Objective):
    """The questions of a probe, `rows` per step; `seed` is that of the questions that the model is judged by."""

    def __init__(
        self, probe: Probe, dim: int, rows: int, seed: int, asked: Probe | None = None, solved: float = SOLVED
    ) -> None:
        super().__init__()
        self.probe = probe
        self.asked = probe if asked is None else asked
        self.solved = solved
        self.rows = rows
        self.seed = seed
        if probe.summary is not None and self.asked != probe:
            raise ValueError(f"{probe.name} answers from one place, whose row cannot be longer: leave out test")
        self.unpack = None if probe.summary is None else Unpack(dim, probe.row_tokens - reads(probe))

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T) and `targets` (B, T), `IGNORED` at positions without a question."""
        questions = self.probe.questions(seed, step, self.rows)
        targets = np.where(questions.scored_positions, questions.targets, IGNORED)
        return {"ids": torch.from_numpy(questions.tokens), "targets": torch.from_numpy(targets)}

    @override
    def targets(self, batch: Batch) -> int:
        """The questions of these rows."""
        return int((batch["targets"] != IGNORED).sum())

    @override
    def count_tokens(self, batch: Batch) -> int:
        return batch["ids"].numel()

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "micro-batches have different numbers of questions" if pieces > 1 else ""

    @override
    def losses(self, model: nn.Module, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a question; the logits are taken in float32 at least."""
        logits, extras = self.answers(model, batch["ids"])
        loss = cross_entropy(widen_logits(logits).flatten(0, 1), batch["targets"].flatten())
        return Pass({"loss": loss}, extras)

    def answers(self, model: Any, ids: Int[Tensor, "B T"]) -> tuple[Logits, Extras]:
        """The logits of the answer at each position, 0 at those before a summary; and the extras."""
        if self.unpack is None:
            logits, extras = model.forward_with_extras(ids)
            return logits, extras
        read = reads(self.probe)
        features, extras = model.features_with_extras(ids[:, :read])
        answers = model.logits(self.unpack(features[:, -1]))
        return torch.cat([answers.new_zeros(len(answers), read, answers.shape[2]), answers], dim=1), extras

    @override
    def score(self, model: nn.Module, held_out: Any) -> Row:
        """The loss of a question, the share of right answers, and both counts by distance (`answers`)."""
        return self._score(model, self.asked, ROWS, 0).row()

    @override
    def summary(self, row: Row) -> str:
        """The share of right answers."""
        return f"right {row['accuracy']:.1%}"

    @override
    def check(self, model: nn.Module, step: int) -> Check | None:
        """Every `CHECK` steps the share of right answers, to questions that `score` does not ask."""
        if step % CHECK:
            return None
        accuracy = self._score(model, self.probe, CHECKED, ROWS).accuracy
        return Check(f"right {accuracy:.1%}", accuracy >= self.solved)

    def _score(self, model: Any, asked: Probe, rows: int, first: int) -> Any:
        """The score on `rows` rows of a probe's held-out questions, from batch `first` on."""
        predict = Replayed(model, lambda ids: self.answers(model, ids)[0], rows // self.rows)
        with Rest(model, self):
            return score(predict, asked, self.seed, rows, batch=self.rows, first=first)


@final
class Unpack(nn.Module):
    """Predicts the answers of all positions from the channels of one."""

    def __init__(self, dim: int, places: int) -> None:
        super().__init__()
        self.places = nn.Embedding(places, dim)
        self.network = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, z: Float[Tensor, "B D"]) -> Float[Tensor, "B T D"]:
        """The channels of one position, expanded to all positions with a question."""
        positions = self.places.weight.expand(len(z), -1, -1)
        packed = z[:, None].expand_as(positions)
        result: Tensor = packed + self.network(torch.cat([packed, positions], dim=2))
        return result
