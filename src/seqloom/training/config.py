"""The settings of a run: model, data, training, and the backends of its ops."""

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, ClassVar, Literal, final

import torch
from pydantic import Field, field_validator, model_validator

from seqloom.core.config import Config
from seqloom.core.layered import LayeredConfig, require_layers
from seqloom.core.model_config import ModelConfig
from seqloom.core.seeds import Seed
from seqloom.data.config import DataConfig
from seqloom.models.kinds import AnyModel, model_config
from seqloom.runs.layout import tokenizer_digest
from seqloom.training.lora import LoraSettings
from seqloom.training.objectives import AnyObjective
from seqloom.training.objectives.next_token import NextTokenConfig
from seqloom.training.schedules import AnySchedule, Constant
from seqloom.training.stages import LARGEST, MOST, Stage, require_whole

FREE = (
    *("batches", "save_every", "save", "evaluate_every", "patience", "device", "timeout"),
    *("sequence", "shard", "reshard", "offload"),
)
"""training settings that do not change a step's result, so that a run may go on under others; `batches` does change it
under a schedule or an objective that uses the length of the run"""


@final
class TrainConfig(Config):
    """How weights are changed."""

    batches: int = Field(60000, ge=1, le=LARGEST, description="optimizer steps of the whole run")
    batch: int = Field(64, ge=1, le=LARGEST, description="windows per optimizer step")
    accumulate: int = Field(1, ge=1, description="micro-batches per step, for gradient accumulation; divides batch")
    lr: float = Field(1e-3, gt=0, description="highest learning rate; the schedule multiplies it at each step")
    betas: tuple[float, float] = Field(
        (0.9, 0.999), description="AdamW's decay rates of the averages of gradients and of their squares"
    )
    weight_decay: float = Field(0.01, ge=0, description="weight decay of AdamW and Muon (default: torch's for AdamW)")
    clip: float | None = Field(
        None, gt=0, description="largest norm of the gradient (clipping); unset: no clipping, as in the paper"
    )
    precision: Literal["float32", "tf32", "bf16", "float64", "auto"] = Field(
        "float32",
        description="precision of weights, forward pass and loss; tf32: float32 weights whose products a GPU rounds "
        "to TF32; bf16: autocast over float32 weights; auto: tf32 on a GPU, float32 elsewhere, chosen at the first "
        "start",
    )
    graph: Literal["auto", "none", "capture"] = Field(
        "auto",
        description="capture: each step runs as a CUDA graph, with the same losses and weights; auto: capture on a "
        "GPU where the run can be captured, none elsewhere",
    )
    recompute: Literal["none", "layer"] = Field(
        "none",
        description="layer: of each layer only the input is kept for the backward, which computes the layer again: the "
        "same gradients for less memory and one more forward",
    )
    pieces: int = Field(
        1,
        ge=1,
        le=LARGEST,
        description="pieces in which each row is read, one after the other: the same gradients, for the memory of one "
        "piece and one more forward; for mixers whose state has a constant size",
    )
    sequence: int = Field(
        1,
        ge=1,
        le=LARGEST,
        description="processes that share the tokens of each row: each reads a stretch after the states of the one "
        "before it; accumulate keeps them busy, all of whose micro-batches are in memory together; for mixers that "
        "stream, fast where the state has a constant size",
    )
    shard: Literal["none", "fsdp", "hybrid"] = Field(
        "none",
        description="with several processes: fsdp divides weights, gradients and optimizer state among them; hybrid "
        "among those of one machine, and every machine has all",
    )
    reshard: bool = Field(
        True, description="with shard: the weights of a layer are freed between its forward and its backward"
    )
    offload: bool = Field(False, description="with shard: a GPU's part of weights and optimizer state lies on the CPU")
    policy: Literal["autocast", "weights"] = Field(
        "autocast",
        description="with shard and precision=bf16: weights gathers every weight in bf16 and sums gradients in "
        "float32; autocast converts in each product",
    )
    compile: bool = Field(
        False,
        description="whether torch.compile compiles the layers around their mixers, which run as they are, and the "
        "norm before the output layer",
    )
    seed: Seed = Field(0, description="seed of the initial weights and of dropout")
    save_every: int = Field(1000, ge=1, le=LARGEST, description="steps between checkpoints")
    save: Literal["sync", "async"] = Field(
        "sync",
        description="async: a checkpoint is copied to the CPU, and written while the training goes on; at most one at "
        "a time",
    )
    evaluate_every: int = Field(0, ge=0, le=LARGEST, description="steps between held-out evaluations; 0: at the end")
    patience: int = Field(
        0,
        ge=0,
        le=LARGEST,
        description="held-out evaluations without a lower loss after which the training ends; the checkpoint of the "
        "lowest is kept; 0: it goes on",
    )
    device: str = Field("auto", description="cpu, cuda, or auto: cuda if there is one")
    timeout: float = Field(600.0, gt=0, description="with several processes: seconds that one waits for the others")
    schedule: AnySchedule = Field(Constant(), description="how the learning rate depends on the step")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: Muon for the weights of linear layers inside the blocks, AdamW for all others"
    )
    decay: Literal["all", "matrices"] = Field(
        "all",
        description="parameters with weight decay: all, or matrices (weights of linear layers and embeddings, not "
        "biases, gains, taps and rates); a mixer may set the decay of its parameters",
    )
    objective: AnyObjective = Field(NextTokenConfig(), description="the training objective")
    stages: Annotated[tuple[Stage, ...], Field(strict=False)] = Field(
        (),
        max_length=MOST,
        description="stages of the run, e.g. [{batches: 2000, window: 64}, {batches: 1000, window: 256, lr: 3e-4}]; "
        "training.batches must be the sum of theirs",
    )
    memory: Literal["none", "carry"] = Field(
        "none",
        description="carry: each row continues its stretch of the text from the state after the step before; none: "
        "a step reads windows drawn from the text",
    )
    through: int = Field(
        1, ge=1, le=LARGEST, description="with memory=carry: segments per step, through which gradients flow"
    )
    begin: str | None = Field(
        None, description="the folder of a run; weights whose names and shapes agree are initialized from it"
    )
    vectors: str | None = Field(
        None,
        description="a file of word vectors (word2vec, text or binary, or GloVe) that initialize the embedding; "
        "other words are drawn with their variance",
    )
    lora: LoraSettings = Field(LoraSettings(), description="adapters of low rank (LoRA)")
    later: ClassVar = (
        "lora",
        *("schedule", "optimizer", "decay", "objective", "stages", "memory", "through", "begin", "vectors"),
        *("graph", "recompute", "pieces", "sequence", "shard", "reshard", "offload", "policy", "save", "patience"),
    )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context in which a training step calls the model on this device."""
        converts = self.precision == "bf16" and self.policy == "autocast"
        return torch.autocast(device.type, dtype=torch.bfloat16) if converts else nullcontext()

    @field_validator("betas", mode="before")
    @classmethod
    def _pair(cls, betas: Any) -> Any:
        return tuple(betas) if isinstance(betas, list) else betas

    @field_validator("betas")
    @classmethod
    def _below_one(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError("both must lie in [0, 1)")
        return betas

    @model_validator(mode="after")
    def _divides(self) -> "TrainConfig":
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} is not divisible by accumulate {self.accumulate}")
        return self

    @model_validator(mode="after")
    def _fits(self) -> "TrainConfig":
        self.schedule.check(self.batches)
        if self.patience and not self.evaluate_every:
            raise ValueError("patience counts held-out evaluations: set training.evaluate_every as well")
        if self.begin is not None and self.vectors is not None:
            raise ValueError("begin and vectors both initialize the embedding: choose one")
        if self.stages:
            require_whole(self.stages, self.batches)
        return self


@final
class RunConfig(Config):
    """Everything that a run is."""

    format: Literal[1] = 1
    model: AnyModel
    data: DataConfig
    training: TrainConfig = TrainConfig()
    backends: dict[str, str] = Field(
        default_factory=dict, description="backends to use for ops, e.g. lag_sum: direct (exactly causal)"
    )

    @field_validator("model", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> ModelConfig:
        return model_config(value)

    @model_validator(mode="after")
    def _fits(self) -> "RunConfig":
        self.training.objective.check(self)
        return self

    @field_validator("format", mode="before")
    @classmethod
    def _number(cls, number: Any) -> Any:
        if isinstance(number, bool):  # to Python, true is 1
            raise ValueError("a format is a number")
        return number

    @property
    def layered_model(self) -> LayeredConfig:
        """The settings of the model, where its layers are mixers. ValueError, which names its kind, where not."""
        return require_layers(self.model)

    @property
    def by_stage(self) -> "list[RunConfig]":
        """The settings of each stage, as of a run of its own; without stages these settings alone."""
        return [self._stage_settings(stage) for stage in self.training.stages] or [self]

    def _stage_settings(self, stage: Stage) -> "RunConfig":
        """The settings of one stage, as of a run of its own."""
        model = self.model if stage.window is None else self.layered_model.with_window(stage.window)
        sized = model.model_copy(update={"context": stage.context or model.context})
        settings = {"batches": stage.batches, "lr": stage.lr or self.training.lr, "stages": ()}
        return self.model_copy(update={"model": sized, "training": self.training.model_copy(update=settings)})

    def identity(self, text: str, tokenizer: str | None = None) -> dict[str, Any]:
        """What must be equal for two runs to be the same: `text` (the corpus's identity) stands for where it lies.

        Of a run without a text it is the objective's `data_identity`.

        `tokenizer` is the text of the tokenizer.json that the run keeps, if it keeps one; its digest is stated.
        """
        settings = self.model_dump(mode="json")
        uses_length = self.training.schedule.uses_length or self.training.objective.uses_length or self.model.fits
        changes_result = {"batches"} if uses_length else set()
        for name in FREE:
            if name not in changes_result:
                settings["training"].pop(name, None)
        settings["data"].pop("source")
        settings["data"].pop("workers", None)
        if self.data.sources:
            settings["data"]["sources"] = [each.weight for each in self.data.sources]
        settings["data"].pop("tokenizer", None)  # a path; `tokenizer` below is its content
        settings["data"]["identity"] = text
        if "unwrap" in self.training.objective.unused_data(self.data)[1]:
            settings["data"]["unwrap"] = True  # as it was written before it could be "auto"
        return settings if tokenizer is None else {**settings, "tokenizer": tokenizer_digest(tokenizer)}
