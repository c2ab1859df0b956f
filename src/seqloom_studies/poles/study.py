"""Distills a trained Extractor: fits its taps by sums of N exponentials, so that its state has a constant size.

    result = distil("runs/he", 16, "runs/he-16")

Each layer of HE, WE, ME or another Extractor with one tap per lag and channel becomes a `modal_extractor` with the same
matrices; all other weights stay the same.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from seqloom.core.config import read
from seqloom.core.layered import LayeredConfig, require_layers
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.core.progress import progress
from seqloom.evaluation.scores import Scores, score
from seqloom.face import load
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.extractors.modal_extractor import ModalExtractor
from seqloom.ops.state_space.pole_fit import Poles, fit
from seqloom.runs import checkpoint
from seqloom.runs import model as stored
from seqloom.runs.code import as_meta
from seqloom.runs.layout import Run, find_run, open_run
from seqloom.runs.lock import lock
from seqloom.studies.eval_text import eval_text
from seqloom_studies.poles.layers import Layer, fit_of, modal, set_poles, taps, unsuitable_reason


@final
@dataclass(frozen=True)
class Distilled:
    """The layers that changed, the reasons why others did not, and the losses and prices before and after."""

    layers: tuple[Layer, ...]
    stayed: dict[int, str]
    text: str
    """the text on which both models were scored, or why there was none"""
    scores: tuple[Scores, Scores] | None


def distil(
    folder: str | Path,
    order: int,
    out: str | Path,
    *,
    data: str | None = None,
    batch: int = 64,
    step: int | None = None,
) -> Distilled:
    """Fits `order` poles per channel to the taps of a run's model, and saves the resulting model in `out`.

    Both models are scored on `data`, or on the held-out part of the run's text. ValueError where no layer has such
    taps, where the state would not become smaller, and where `out` exists.
    """
    out, run = Path(out), find_run(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists already: choose another --out")
    if step is None and (newest := checkpoint.peek(run.checkpoints)) is not None:
        step = newest.step
    model = load(folder, step=step)
    require_layers(model.config, "a distillation")
    stayed = {}
    for number, (mixer, config) in enumerate(zip(model.mixers, model.config.mixers, strict=True)):
        if (why := unsuitable_reason(mixer, config.kind)) is not None:
            stayed[number] = why
    if len(stayed) == len(model.mixers):
        raise ValueError(f"{folder} has no taps for poles (he, we, me have): {'; '.join(sorted(set(stayed.values())))}")
    _require_gain(order, model.config.context)
    tokens, text = eval_text(run, model, data)
    distilled, layers = _with_poles(model, order)
    scores = None
    if tokens is not None:
        with progress("predicting the text", 2, "models") as advance:
            score_before = score(model, tokens, batch=batch)
            advance()
            scores = (score_before, score(distilled, tokens, batch=batch))
            advance()
    _save(distilled, out, run, {"run": run.identity, "step": step, "order": order})
    return Distilled(layers, stayed, text, scores)


def _require_gain(order: int, context: int) -> None:
    """ValueError unless `order` poles have a smaller state than the window of a context."""
    largest_order = (context - 2) // 2  # a pole takes two numbers of state, the window of an Extractor L-1
    if largest_order < 1:
        raise ValueError(f"a context of {context} is a window of {context - 1} numbers a channel: no poles are fewer")
    if not 1 <= order <= largest_order:
        raise ValueError(
            f"--order must lie in 1 … {largest_order}, not {order}: a pole is two numbers a channel, the window of "
            f"this run {context - 1}, and the state is to become smaller"
        )


def _with_poles(model: Model, order: int) -> tuple[Model, tuple[Layer, ...]]:
    """The model with poles in place of taps where they can be fitted, and the layers that changed."""
    extractors = {
        n: mixer
        for n, mixer in enumerate(model.mixers)
        if isinstance(mixer, Extractor) and unsuitable_reason(mixer, "") is None
    }
    mixers: list[MixerConfig] = list(model.config.mixers)
    kinds = [mixer.kind for mixer in mixers]
    poles: dict[int, Poles] = {}
    total = sum(taps(mixer).shape[1] for mixer in extractors.values())
    with progress("fitting poles", total, "channels") as advance:
        for n, mixer in extractors.items():
            mixers[n] = modal(mixer, order)
            poles[n] = fit(mixer.w_ext, order, advance=advance)
    distilled = _config(require_layers(model.config), mixers).build().to(model.dtype)
    weights, initial = model.state_dict(), distilled.state_dict()
    distilled.load_state_dict({name: weights.get(name, value) for name, value in initial.items()})
    layers = []
    for n, mixer in extractors.items():
        new = distilled.mixers[n]
        assert isinstance(new, ModalExtractor)
        set_poles(poles[n], mixer, new)
        layers.append(fit_of(n, kinds[n], mixer, new))
    distilled.tokenizer = model.tokenizer
    return distilled.eval(), tuple(layers)


def _config(config: LayeredConfig, mixers: list[MixerConfig]) -> LayeredConfig:
    """The settings of the model with other mixers; one mixer in place of the list where all layers have the same."""
    settings = [mixer.model_dump(mode="json") for mixer in mixers]
    all_equal = all(other == settings[0] for other in settings)
    changed = {**config.model_dump(mode="json"), "mixer": settings[0] if all_equal else settings}
    result: LayeredConfig = read(type(config), changed)
    return result


def _save(model: Model, out: Path, source: Run, origin: dict[str, Any]) -> None:
    """As `runs.model.save`, with the origin of the model and the settings of the source run's text."""
    tokenizer = model.tokenizer
    settings = {**stored.settings(model, tokenizer), "distilled": origin}
    if "data" in source.settings:
        settings["data"] = source.settings["data"]
    with lock(out):
        run = open_run(out, settings)
        if tokenizer is not None:
            run.keep_tokenizer(tokenizer.json)
        meta = {"run": run.identity, **as_meta(model.config)}
        checkpoint.save(run.checkpoints, 0, {"model": model.state_dict()}, meta)
