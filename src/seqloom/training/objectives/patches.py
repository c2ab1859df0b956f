"""Patches: the label of each picture, predicted from its patches (`seqloom.data.pictures.patches`).

    loss = -1/B Σ over the B pictures of a batch of ln p(label | patches)                   nats per picture

Every picture is read once an epoch, in an order of its own. The score also has the share of right labels, and what
always saying the commonest label gives.

Source: Dosovitskiy et al., ViT, arXiv:2010.11929, section 4, without its augmentations.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.model_config import ModelConfig, weightless
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.permutation import permute
from seqloom.data.pictures.patches import LabelledPatches, identity_of, read_patches
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import widen_logits
from seqloom.models.patch_classifier import PatchClassifierConfig
from seqloom.training.objectives.config import ObjectiveConfig, Prepared
from seqloom.training.objectives.text import WINDOWS

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


@final
class PatchesConfig(ObjectiveConfig):
    """Predicts the label of each picture from its patches."""

    kind: Literal["patches"] = "patches"
    causal: ClassVar = False
    made_for: ClassVar = "patch_classifier"
    sized_by_data: ClassVar = True

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "patches have", (*WINDOWS, "labels", "passage", "tokenizer", "vocab", "column")

    @override
    def size_model(self, model: ModelConfig) -> ModelConfig:
        """It has no tokens, and one embedding."""
        return model.model_copy(update={"vocab": 1})

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        """The settings with what follows from the pictures: their size and their labels.

        ValueError where a mixer does not fit so many patches.
        """
        run = super().prepare(run).config
        model = cast(PatchClassifierConfig, run.model)
        corpus = read_patches(run.data.source, model.patch, run.data.held_out, run.data.seed)
        model = model.with_pictures(corpus)
        weightless(model)
        return Prepared(run.model_copy(update={"model": model}), None)

    @override
    def data_identity(self, data: DataConfig) -> str:
        return identity_of(data.source)

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Patches":
        patch = cast(PatchClassifierConfig, model).patch
        corpus = read_patches(data.source, patch, data.held_out, data.seed)
        return Patches(corpus.train, corpus.held_out, rows)

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        config = cast(PatchClassifierConfig, model)
        draws = np.random.default_rng(0)
        values = draws.integers(0, 256, (2 * rows, config.context, config.inputs), np.uint8)
        noise = LabelledPatches(values, draws.integers(0, config.outputs, 2 * rows))
        return Patches(noise, noise, rows)


@final
class Patches(Objective):
    """Labelled pictures in patches, `rows` per step."""

    def __init__(self, train: LabelledPatches, held_out: LabelledPatches, rows: int) -> None:
        super().__init__()
        self.train_pictures, self.held_out = train, held_out
        self.rows = rows

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The tensors of `tensors_of`, of the pictures of a step."""
        count = len(self.train_pictures)
        epoch, index = np.divmod(np.arange(step * self.rows, (step + 1) * self.rows), count)
        return tensors_of(self.train_pictures, permute(index, epoch, count, seed))

    @override
    def count_tokens(self, batch: Batch) -> int:
        """The patches that are read."""
        return batch["ids"].numel()

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a picture."""
        logits, extras = model.classify(batch["ids"], None, batch["values"])
        return Pass({"loss": cross_entropy(widen_logits(logits), batch["label"])}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss of held-out pictures, the share of right labels, and that of always saying the commonest.

        `held_out` are pictures in place of the run's own.
        """
        pictures = self.held_out if held_out is None else held_out
        count = len(pictures)
        nats = 0.0
        right = 0
        with Rest(model), torch.no_grad():
            for first in range(0, count, self.rows):
                batch = tensors_of(pictures, np.arange(first, min(first + self.rows, count)))
                inputs = {name: tensor.to(model.device) for name, tensor in batch.items()}
                logits = widen_logits(model(inputs["ids"], None, inputs["values"])).cpu()
                nats += float(cross_entropy(logits.double(), batch["label"], reduction="sum"))
                right += int((logits.argmax(1) == batch["label"]).sum())
        commonest = int(np.bincount(pictures.labels).max())
        return {"held_out": nats / count, "accuracy": right / count, "chance": commonest / count, "pictures": count}

    @override
    def summary(self, row: Row) -> str:
        """Loss, accuracy and chance."""
        loss, accuracy = format_cell(row["held_out"]), f"{row['accuracy']:.1%}"
        return (
            f"held-out loss {loss} nats per picture, {accuracy} of {row['pictures']:,} right "
            f"({row['chance']:.1%} by always saying the commonest label)"
        )


def tensors_of(pictures: LabelledPatches, chosen: "np.ndarray") -> Batch:
    """`ids` (B, T), all 0; `values` (B, T, V) in float32; `label` (B,)."""
    values = torch.from_numpy(pictures.values[chosen].astype(np.float32))
    ids = torch.zeros(values.shape[:2], dtype=torch.long)
    return {"ids": ids, "values": values, "label": torch.from_numpy(pictures.labels[chosen])}
