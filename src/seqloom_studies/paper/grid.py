"""The grid of runs: mixer × settings × seed, each run in OUT/cells/NAME.

A run is named by its differences from the scale, such as `she.depth=4.seed-1`, so that figures that need the same run
share it. The number of batches is not part of the name: a longer study continues the runs of a shorter one. OUT is
bound to one scale and one text; with any other the study raises an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from seqloom.data.prepare import Corpus
from seqloom.evaluation.scores import unigram_entropy
from seqloom.evaluation.stories import floor
from seqloom.studies.candidates import parse_candidate
from seqloom.training.config import RunConfig
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve
from seqloom_studies.paper.scales import Scale


@final
@dataclass(frozen=True)
class Model:
    """A model of a grid: its name, and the settings that differ from the scale's, without a seed."""

    name: str
    changes: tuple[str, ...]


@final
@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    model: Model
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder in OUT/cells."""
        return f"{self.model.name}.seed-{self.seed}"


@final
class Grid:
    """A scale and a text, in OUT.

    `sets` changes the settings of all cells, `batches` replaces their numbers of batches.
    """

    def __init__(
        self,
        scale: Scale,
        out: Path,
        *,
        source: str | None = None,
        sets: Sequence[str] = (),
        batches: int | None = None,
    ) -> None:
        """Prepares the text. ValueError where settings do not fit or `batches` is less than 1."""
        self.scale, self.out, self._source = scale, out, source
        self._sets = tuple(sets)
        self._batches_change = () if batches is None else (f"training.batches={batches}",)
        self._base = resolve(scale.preset, [*scale.changes, *sets, *self._batches_change], source)
        self._configs: dict[Model, RunConfig] = {}

    @cached_property
    def corpus(self) -> Corpus:
        """The prepared text."""
        return with_text(self._base)[1]

    @cached_property
    def entropies(self) -> dict[str, float | None]:
        """Reference losses of the held-out text, in nats per token: of token frequencies, and a known lower bound."""
        tokens = self.corpus.held_out
        return {"unigram": unigram_entropy(tokens), "floor": floor(tokens, self.corpus.tokenizer)}

    def model(self, text: str, *changes: str) -> Model:
        """The model of a contender (`KIND` or `KIND:NAME=VALUE,…`) with further settings."""
        mixer = parse_candidate(text)
        # of a setting that is given twice, the last value counts
        settings = dict(change.split("=", 1) for change in changes)
        changed = {setting: value for setting, value in settings.items() if _at(self._base, setting) != value}
        name_parts = [
            f".{setting.rsplit('.', 1)[-1]}={changed[setting]}"
            for setting in sorted(changed)
            if setting != "training.batches"
        ]
        changes_of_model = [f"{setting}={value}" for setting, value in changed.items()]
        return Model(mixer.name + "".join(name_parts), (*mixer.changes, *changes_of_model))

    def config(self, model: Model, seed: int = 0) -> RunConfig:
        """The settings of a cell, with the vocabulary of the text."""
        if model not in self._configs:
            changes = [*self.scale.changes, *self._sets, *model.changes, *self._batches_change]
            config = resolve(self.scale.preset, changes, self._source)
            vocab = {"vocab": self.corpus.tokenizer.vocab}
            self._configs[model] = config.model_copy(update={"model": config.model.model_copy(update=vocab)})
        cached = self._configs[model]
        return cached.model_copy(update={"training": cached.training.model_copy(update={"seed": seed})})

    def batches(self, cell: Cell) -> int:
        """The number of batches of its training."""
        return self.config(cell.model).training.batches

    def folder(self, cell: Cell) -> Path:
        """The folder of its run."""
        return self.out / "cells" / cell.name

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that OUT is bound to: scale, shared settings and text."""
        shared = self._base.identity(self.corpus.identity)
        del shared["model"]["mixer"], shared["training"]["seed"]
        return {"scale": self.scale.name, **shared}


def _at(config: RunConfig, setting: str) -> str:
    """The value of a setting as text; empty for a name that does not exist."""
    value: Any = config
    for part in setting.split("."):
        value = getattr(value, part, "")
    return str(value)
