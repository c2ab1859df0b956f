"""A model whose attention is distilled into other mixers: the swap, the training, and what it is compared with.

    OUT/start                 the swapped model before any training, with attention's projections
    OUT                       the student: a run of the objective `distill`
    OUT/baselines/fresh       the same mixers with random weights, trained by the loss alone on as many tokens
    OUT/baselines/scratch     the student's settings, with all weights random, on as many tokens
    OUT/distilled.json        the rows of the table, when all is done

Each is a run, so that the same call continues where it stopped. Without training the teacher is also scored with the
replaced layers removed, and with a window over the latest tokens in them.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import torch

from seqloom.core.model import Model
from seqloom.core.progress import Say, Show, progress
from seqloom.core.rest import Rest
from seqloom.data.prepare import Corpus
from seqloom.evaluation.needed_attention import Given, give_windows
from seqloom.evaluation.scores import score
from seqloom.models.attention_layers import attention_layers, count_kept, layers_to_replace
from seqloom.models.config import TransformerConfig
from seqloom.models.stand_ins import attention_in_windows, has_sinks, mixers_of_zeros
from seqloom.models.swap import swap, swapped_settings
from seqloom.models.switched import SwitchedMixers, differing_layers
from seqloom.models.take_over import Init
from seqloom.runs import model as stored
from seqloom.runs.durable import write_json
from seqloom.runs.layout import find_run
from seqloom.training.config import RunConfig
from seqloom.training.distillation import AUTO, Distillation
from seqloom.training.preparation import with_text
from seqloom.training.train import Outcome, train

WINDOW = 64
"""tokens of the window that stands in for the replaced layers; half of a row where that is less"""
BASELINES = {"fresh": "fresh mixers, by the loss alone", "scratch": "all weights random, by the loss alone"}
"""what is trained to compare with, by its folder"""


@final
@dataclass(frozen=True)
class Row:
    """A model and its loss on the held-out part of the text."""

    model: str
    loss: float
    """nats a token"""
    recovered: float | None = None
    """the share of what removing the layers costs that this model does not lose"""


@final
@dataclass(frozen=True)
class Distilled:
    """The student, where it is trained to its end, and what it is compared with."""

    outcome: Outcome
    layers: tuple[int, ...]
    """that were replaced"""
    given: tuple[Given, ...]
    """how they were chosen, with `auto:`"""
    rows: tuple[Row, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all trainings reached their end."""
        return self.outcome.asked is None


def distill(
    asked: Distillation, *, baselines: bool = False, say: Say | None = None, show: Show = progress
) -> Distilled:
    """Does all that is left to do, until a signal asks to stop; `baselines` adds the two that are trained.

    ValueError, in one line, for settings that do not fit, and for a folder of another distillation.
    """
    given = _begin(asked, show)
    settings = asked.student()
    outcome = train(settings, asked.out, say=say, show=show)
    layers = tuple(differing_layers(asked.config, settings.layered_model))  # type: ignore[arg-type]  # a student is a decoder
    if outcome.asked is not None:
        return Distilled(outcome, layers, given, ())
    assert outcome.corpus is not None
    rows = list(_untrained_losses(asked, layers, outcome.corpus, show))
    rows.append(Row(f"{asked.to}, distilled", _held_out(outcome)))
    for folder in BASELINES if baselines else ():
        run = _baseline(asked, layers, folder)
        outcome = train(run, asked.out / "baselines" / folder, say=say, show=show)
        if outcome.asked is not None:
            return Distilled(outcome, layers, given, ())
        rows.append(Row(BASELINES[folder], _held_out(outcome)))
    found = tuple(_with_shares(rows))
    write_json(asked.out / "distilled.json", [asdict(row) for row in found])
    return Distilled(outcome, layers, given, found)


def _begin(asked: Distillation, show: Show) -> tuple[Given, ...]:
    """Makes the swapped model, where there is none; returns how its layers were chosen."""
    if (asked.start / "config.json").exists():
        _require_same(asked)
        return ()
    teacher, _ = stored.load(asked.teacher)
    given: list[Given] = []
    if asked.keep.startswith(AUTO):
        given = _choose_layers(asked, teacher, show)
        layers = [step.layer for step in given]
    else:
        layers = layers_to_replace(asked.config, asked.keep)
    asked.settings(asked.config, begin="-", objective=asked.objective(distils=True))  # refuses what does not fit
    _save_swapped(asked, teacher, layers, asked.start, "projections")
    return tuple(given)


def _require_same(asked: Distillation) -> None:
    """Raises ValueError where the swapped model that is there is another one than asked for."""
    config, found = asked.config, stored.config_of(find_run(asked.start))
    assert isinstance(found, TransformerConfig)
    layers = differing_layers(config, found)
    if asked.keep.startswith(AUTO):
        wanted = swapped_settings(config, dict.fromkeys(layers, asked.to))
        same = len(layers) == len(attention_layers(config)) - _count_kept(asked)
    else:
        wanted = swapped_settings(config, dict.fromkeys(layers_to_replace(config, asked.keep), asked.to))
        same = True
    if found != wanted or not same:
        raise ValueError(f"{asked.out} holds another distillation: choose another --out")


def _count_kept(asked: Distillation) -> int:
    """How many layers keep attention under `auto:`. ValueError where it is no share."""
    keep = count_kept(len(attention_layers(asked.config)), asked.keep.removeprefix(AUTO))
    if keep is None:
        raise ValueError(f"--keep-attention {asked.keep} must be auto: and a share, as auto:25%")
    return keep


def _choose_layers(asked: Distillation, teacher: Model, show: Show) -> list[Given]:
    """The layers that lose least by a window, until as many keep attention as asked for."""
    keep = _count_kept(asked)
    _, corpus = with_text(asked.settings(asked.config))
    attention = attention_layers(asked.config)
    return give_windows(teacher, corpus.held_out, attention, keep, context=asked.context, show=show)


def _save_swapped(asked: Distillation, teacher: Model, layers: list[int], folder: Path, init: Init) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(asked.seed)
        swapped, _ = swap(teacher, dict.fromkeys(layers, asked.to), init=init)
    stored.save(swapped, folder)


def _untrained_losses(asked: Distillation, layers: tuple[int, ...], corpus: Corpus, show: Show) -> Iterator[Row]:
    """The teacher, and it without attention in these layers, before any training."""
    teacher, _ = stored.load(asked.teacher)
    window = min(WINDOW, max(1, (asked.context or asked.config.context) // 2))
    sinks = ", 4 sinks" if has_sinks(asked.config, layers[0]) else ""
    models = {
        "the teacher": SwitchedMixers({}),
        "attention removed": mixers_of_zeros(teacher, layers),
        f"a window of {window}{sinks}, untrained": attention_in_windows(teacher, layers, window),
    }
    for name, mixers in models.items():
        with Rest(teacher), mixers.in_place(teacher):
            found = score(teacher, corpus.held_out, batch=asked.batch, context=asked.context, show=show)
        yield Row(name, found.row()["held_out"])


def _baseline(asked: Distillation, layers: tuple[int, ...], folder: str) -> RunConfig:
    """The settings of what is trained on the same tokens, by the loss alone."""
    model = stored.config_of(find_run(asked.start))
    loss_alone = asked.objective(distils=False)
    if folder == "scratch":
        return asked.settings(model, objective=loss_alone)
    start = asked.out / "baselines" / "fresh-start"
    if not (start / "config.json").exists():
        teacher, _ = stored.load(asked.teacher)
        _save_swapped(asked, teacher, list(layers), start, "fresh")
    return asked.settings(model, begin=str(start), objective=loss_alone)


def _held_out(outcome: Outcome) -> float:
    assert outcome.score is not None
    return float(outcome.score["held_out"])


def _with_shares(rows: list[Row]) -> Iterator[Row]:
    """The rows, each with the share of what removing the layers costs that it recovers."""
    teacher, without = rows[0].loss, rows[1].loss
    for row in rows:
        share = None if without <= teacher else (without - row.loss) / (without - teacher)
        yield replace(row, recovered=share)


def read_rows(out: Path) -> list[Row]:
    """The rows of a distillation that is done. FileNotFoundError where there are none."""
    path = out / "distilled.json"
    return [Row(**row) for row in json.loads(path.read_text())]
