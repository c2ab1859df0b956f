"""What a report shows of a trained model: size of its state, sampled texts, share of grammatical sentences, views."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from typing_extensions import override

from seqloom.core.device import choose_device
from seqloom.core.model import Model
from seqloom.core.progress import Say, Show
from seqloom.core.state import nbytes
from seqloom.evaluation.stories import judge_stories
from seqloom.face import load
from seqloom.report.comparison import Sample, View
from seqloom.runs.code import Codes
from seqloom.runs.layout import find_run
from seqloom.studies.pictures import TOKENS, plot_model, sample
from seqloom.studies.study import Cell, Row

STORIES = 32
"""number of sampled texts that are checked against the grammar"""
LENGTH = 200
"""the most tokens of such a text"""


@final
class Samples(Row):
    """What is measured of one contender, on the model of its first seed."""

    contender: str
    state_bytes: int | None
    """bytes of one text's state once the window is full"""
    table_bytes: int | None = None
    """bytes of the tables of a model of counts; None for other models"""
    grammatical: float | None = None
    """share of sampled sentences that are of the grammar"""
    agreeing: float | None = None
    """share of the grammatical sentences that also agree with their story so far"""
    samples: list[Sample]
    views: list[View]


@final
@dataclass(frozen=True)
class SamplesCell(Cell):
    """Measures the trained model in the folder `run_folder`."""

    schema: ClassVar = Samples
    contender: str
    run_folder: str
    """relative to the study's folder"""
    identity: dict[str, Any]
    """the identity of the run, with the number of batches that it was trained for"""
    device: str
    passage: tuple[int, ...]
    """ids of the text that views are made of"""
    prompts: tuple[str, ...] = ()
    judged: bool = False
    """whether the text has a grammar"""
    run_code: Codes = field(default_factory=dict)
    """the codes of the run (`Cell.code`)"""

    @property
    def settings(self) -> dict[str, Any]:
        """The run, and the settings of the portrait."""
        return {
            "run": self.identity,
            "prompts": list(self.prompts),
            "passage": list(self.passage),
            "tokens": TOKENS,
            "stories": STORIES if self.judged else 0,
        }

    @property
    @override
    def code(self) -> Codes:
        return self.run_code

    @property
    @override
    def about(self) -> str:
        return self.contender

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """One row."""
        study_folder = folder
        for _ in Path(self.name).parts:
            study_folder = study_folder.parent
        find_run(study_folder / self.run_folder)
        model = load(study_folder / self.run_folder).to(choose_device(self.device))
        tokenizer = model.tokenizer
        assert tokenizer is not None
        grammar: dict[str, float] = {}
        with show("writing", 2, "parts") as advance:
            prompts = self.prompts if model.traits.generates else ()
            samples = [sample(model, tokenizer, prompt, seed) for prompt in prompts for seed in (0, 1)]
            advance(note="texts")
            if self.judged:
                judgment = judge_stories(model, stories=STORIES, tokens=LENGTH, top_p=0.9)
                written = max(judgment.written, 1)
                grammar = {"grammatical": judgment.grammatical / written, "agreeing": judgment.agreeing / written}
            advance(note="stories")
        return [
            Samples(
                contender=self.contender,
                state_bytes=_state_bytes(model),
                table_bytes=sum(table.nbytes for table in model.buffers()) if model.config.fits else None,
                **grammar,
                samples=[Sample.model_validate(sample) for sample in samples],
                views=[View.model_validate(view) for view in plot_model(model, tokenizer, list(self.passage))],
            )
        ]


def _state_bytes(model: Model) -> int | None:
    """Bytes of the trimmed state of one row after a full window; None for a model without a state."""
    if not (model.traits.streams or model.traits.translates):
        return None
    ids = torch.zeros(1, model.config.context, dtype=torch.long, device=model.device)
    with torch.no_grad():
        initial = model.begin(ids) if model.traits.translates else model.start(1)
        _, state = model.extend(ids, initial)
        return nbytes(model.trim(state))
