"""What is distilled into what, and how long: the settings of the runs of a distillation (`training.distilling`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, final

from seqloom.models.attention_layers import attention_layers
from seqloom.models.config import TransformerConfig
from seqloom.runs import model as stored
from seqloom.runs.layout import find_run
from seqloom.training.config import RunConfig

AUTO = "auto:"
SHARES = {"sublayers": 0.3, "states": 0.05, "logits": 0.35}
"""of all batches; in those that are left every weight learns"""
OWN = frozenset({"batches", "batch", "lr", "seed", "objective", "begin", "stages"})
"""settings of the training that follow from those of the distillation"""


@final
@dataclass(frozen=True)
class Distillation:
    """What is distilled into what, and how long."""

    teacher: Path
    """a run, or a folder of transformers"""
    out: Path
    to: str
    data: str
    keep: str = "25%"
    """layers that keep attention: numbers, a share, or `auto:` and a share"""
    tokens: int = 1_000_000
    batch: int = 16
    context: int | None = None
    """tokens of a row; None: as many as the model's context"""
    rate: float = 1e-3
    temperature: float = 1.0
    seed: int = 0
    held_out: float = 0.05
    training: Mapping[str, Any] = field(default_factory=dict)
    """further settings of the training, such as {"precision": "bf16", "recompute": "layer"}"""

    def __post_init__(self) -> None:
        own = sorted(set(self.training) & OWN)
        if own:
            raise ValueError(f"training.{own[0]} follows from the distillation: leave it out of --set")

    @cached_property
    def config(self) -> TransformerConfig:
        """The settings of the teacher. ValueError where it has no attention."""
        config = stored.config_of(find_run(self.teacher))
        if not isinstance(config, TransformerConfig) or config.kind != "decoder":
            raise ValueError(f"{self.teacher} is no decoder with attention: nothing in it could be distilled")
        attention_layers(config)
        return config

    @property
    def start(self) -> Path:
        """The folder of the swapped model."""
        return self.out / "start"

    @property
    def batches(self) -> int:
        """Optimizer steps. ValueError where there are too few tokens for the stages."""
        longest = self.config.context
        if self.context is not None and self.context > longest:
            raise ValueError(f"rows of {self.context:,} tokens are longer than the model's context of {longest:,}")
        batches = self.tokens // (self.batch * (self.context or longest))
        if batches < 20:
            raise ValueError(f"{self.tokens:,} tokens are {batches} batches, and 20 are needed: give more --tokens")
        return batches

    def settings(self, model: Any, **training: Any) -> RunConfig:
        """The settings of a run on this text, for as many tokens."""
        teacher = find_run(self.teacher)
        if not teacher.has_tokenizer():
            raise ValueError(f"{self.teacher} has no tokenizer, so that no text can be read with it: save it with one")
        values: dict[str, Any] = {
            "batches": self.batches,
            "batch": self.batch,
            "lr": self.rate,
            "betas": [0.9, 0.95],
            "clip": 1.0,
            "schedule": {"kind": "cosine", "warmup": min(100, self.batches // 10), "final": 0.1},
            "seed": self.seed,
            "save_every": max(10, self.batches // 10),
        }
        if self.context is not None and self.context != self.config.context:
            values["stages"] = [{"batches": self.batches, "context": self.context}]
        tokenizer = str(teacher.folder if teacher.is_foreign else teacher.tokenizer)
        data = {"source": self.data, "tokenizer": tokenizer, "vocab": None, "held_out": self.held_out}
        return RunConfig.model_validate(
            {"model": model, "data": data, "training": {**values, **self.training, **training}}
        )

    def objective(self, distils: bool) -> dict[str, Any]:
        """The settings of the objective: its stages, or the loss alone."""
        stages = {name: round(share * self.batches) if distils else 0 for name, share in SHARES.items()}
        return {"kind": "distill", "teacher": str(self.teacher), "temperature": self.temperature, **stages}

    def student(self) -> RunConfig:
        """The settings of the student's run."""
        model = stored.config_of(find_run(self.start))
        return self.settings(model, begin=str(self.start), objective=self.objective(distils=True))
