"""Length extrapolation: trained models read texts longer than those that they were trained on.

    study = Extrapolate((Path("runs/alibi"), Path("runs/t5")), (32, 64, 128), "held.txt")
    rows = run(study.study, Path("runs/longer")).of(Longer)

For each length a text is cut into adjacent windows, and every token is predicted once, without further training. For a
length above the trained context the model is built again with that length as its context and the same weights, so that
attention looks at the whole window. A model with weights for each lag or position (such as an Extractor's taps) is not
built again: it reads the longer window with its trained context. A model that can do neither has a row with the reason.

Source: Press et al., ALiBi, arXiv:2108.12409, section 2.2 and Figure 1 (nonoverlapping inference), which seed 002 shows
as its Figure 11. What differs: a column of its own has the mean loss of the tokens beyond the trained context, since
longer windows also have a smaller share of tokens with little context.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, final

from typing_extensions import override

from seqloom.core.layered import require_layers
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Say, Show
from seqloom.core.table import format_cell
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.runs import model as stored
from seqloom.runs import steps
from seqloom.runs.code import Codes, codes
from seqloom.runs.layout import Run, find_run
from seqloom.studies.eval_text import eval_text
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, Study
from seqloom_studies.extrapolate.longer_windows import at_length, beyond

TOKENS = 8192
"""tokens of a batch, or one window if it is longer"""


@final
class Longer(Row):
    """How well a model predicts a text in windows of one length."""

    run: str
    mixer: str
    position: str
    dim: int
    depth: int
    parameters: int
    context: int
    """tokens of a window in training"""
    batches: int
    batch: int | None
    seed: int | None
    """seed of the training; None for a model that was saved without one"""
    text: str
    length: int
    """tokens of a window here"""
    looks_back: int | None
    """tokens that the model is built to look back on; None where it did not read the text"""
    tokens: int
    loss: float | None
    """nats per token over all tokens"""
    beyond: float | None
    """nats per token over the tokens whose position in the window is beyond the trained context"""
    refused: str | None = None
    """the reason where there is no loss"""


@final
@dataclass(frozen=True, kw_only=True)
class LengthCell(Cell):
    """One model at one length."""

    schema: ClassVar = Longer
    folder: str
    step: int
    length: int
    data: str | None
    digest: str
    """digest of the run's identity, the step of its weights and the text"""
    run_code: Codes
    """the codes of the mixers of the run, as they are now"""

    @property
    def settings(self) -> dict[str, Any]:
        """The model, the text and the length."""
        return {"read": self.digest, "length": self.length}

    @property
    @override
    def code(self) -> Codes:
        return self.run_code

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Longer]:
        """One row; its loss is None where the model cannot read windows of that length."""
        model, run = _load_run(self.folder, self.step)
        tokens, text = _tokens(self.folder, self.step, self.data)
        training = run.settings.get("training", {})
        shared = {
            "run": Path(self.name).parent.name,
            "mixer": " + ".join(sorted({mixer.kind for mixer in require_layers(model.config).pattern})),
            "position": require_layers(model.config).position.kind,
            "dim": require_layers(model.config).dim,
            "depth": require_layers(model.config).depth,
            "parameters": sum(weights.numel() for weights in model.parameters()),
            "context": model.config.context,
            "batches": self.step,
            "batch": training.get("batch"),
            "seed": training.get("seed"),
            "text": text,
            "length": self.length,
            "tokens": len(tokens),
        }
        try:
            longer = at_length(model, self.length)
        except ValueError as error:
            return [Longer(**shared, looks_back=None, loss=None, beyond=None, refused=str(error))]
        scores = score(longer, tokens, batch=max(1, TOKENS // self.length), context=self.length)
        loss_beyond = beyond(scores, tokens, self.length, model.config.context)
        return [Longer(**shared, looks_back=longer.config.context, loss=scores.loss, beyond=loss_beyond)]

    def text(self, rows: Sequence[Longer]) -> str:
        """The loss, or the reason why there is none."""
        row = rows[0]
        return f"loss {format_cell(row.loss)}" if row.loss is not None else f"refused: {row.refused}"


@final
@dataclass(frozen=True)
class Extrapolate:
    """Scores of `runs` at `lengths` in tokens, on a text: by default the held-out text of the run.

    ValueError for repeated values, runs whose models do not predict the next token, and a text that cannot be read;
    FileNotFoundError for a missing run.
    """

    runs: Sequence[Path]
    lengths: Sequence[int]
    data: str | None = None

    def __post_init__(self) -> None:
        if not self.runs or not self.lengths:
            raise ValueError("extrapolate needs at least one run and one length")
        if len(set(self.lengths)) < len(self.lengths) or min(self.lengths) < 1:
            raise ValueError(f"--lengths are numbers of tokens that differ, not {', '.join(map(str, self.lengths))}")
        names = [_name(run) for run in self.runs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two runs are called {name!r}: give folders of different names")

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other runs and lengths may be added."""
        return Study("extrapolate", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        yield list(self.cells)

    @cached_property
    def cells(self) -> list[LengthCell]:
        """Every run at each length, the shortest first."""
        cells = []
        for path in self.runs:
            step = _newest_step(find_run(path))
            model, run = _load_run(str(path), step)
            tokens, _ = _tokens(str(path), step, self.data)
            digest = hashlib.sha256(f"{run.identity} {step} ".encode())
            digest.update(tokens.ids.tobytes())
            cells += [
                LengthCell(
                    name=f"{_name(path)}/length-{length}",
                    folder=str(path),
                    step=step,
                    length=length,
                    data=self.data,
                    digest=digest.hexdigest(),
                    run_code=codes(model.config),
                )
                for length in sorted(self.lengths)
            ]
        return cells


def _name(run: Path) -> str:
    return run.resolve().name


def _newest_step(run: Run) -> int:
    """The step of the newest checkpoint. FileNotFoundError where there is none."""
    saved_steps = steps.whole(run.checkpoints)
    if not saved_steps:
        raise FileNotFoundError(f"{run.folder} has no checkpoint: train it first")
    return max(saved_steps)


@lru_cache(maxsize=1)
def _load_run(folder: str, step: int) -> tuple[Model, Run]:
    """The model and the run in a folder; the latest is cached, since consecutive cells read the same run."""
    model, run = stored.load(folder, step=step)
    require_generates(model, "predict the next token")
    if run.has_tokenizer():
        from seqloom.data.tokenizer import Tokenizer

        model.tokenizer = Tokenizer.load(run.tokenizer)
    return model, run


@lru_cache(maxsize=1)
def _tokens(folder: str, step: int, data: str | None) -> tuple[Tokens, str]:
    """The text to score a run on, and its name. ValueError where there is none."""
    model, run = _load_run(folder, step)
    tokens, name = eval_text(run, model, data)
    if tokens is None:
        raise ValueError(f"{run.folder}: {name}")
    return tokens, Path(name).name if data is not None else name
