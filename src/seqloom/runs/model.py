"""A model in a run's folder: its settings, its weights, its tokenizer.

save(model, folder)     makes a folder that `load` reads, as training does
load(folder)            the model of the newest checkpoint that verifies, or of a given step; or one of transformers
save_rounded(run, out)  the newest model of a run alone, with weights of two bytes
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from seqloom.core.available_memory import require_memory
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.models.foreign import load as foreign
from seqloom.models.kinds import model_config
from seqloom.runs import checkpoint, steps
from seqloom.runs.adapters import with_merged_adapters
from seqloom.runs.code import as_meta, changed_kinds, changed_words, codes, of_meta
from seqloom.runs.layer_source import is_copy, keep_sources, known_code
from seqloom.runs.layout import Run, find_run, open_run, tokenizer_digest
from seqloom.runs.lock import lock

FORMAT = 1
"""the `format` in config.json that this seqloom writes, and the newest that it reads"""
BF16 = "bfloat16"
"""the `stored` in the settings of a run whose weights were rounded when they were saved"""


class Stored(Protocol):
    """The attributes of a tokenizer that saving needs."""

    @property
    def json(self) -> str:
        """The text of its tokenizer.json."""


def settings(model: Model, tokenizer: Stored | None = None) -> dict[str, Any]:
    """The contents of config.json for a model without a training."""
    content = {"format": FORMAT, "model": model.config.model_dump(mode="json")}
    if model.dtype == torch.float64:
        content["precision"] = "float64"
    return content if tokenizer is None else {**content, "tokenizer": tokenizer_digest(tokenizer.json)}


def save(model: Model, folder: str | Path, *, tokenizer: Stored | None = None) -> Path:
    """Saves a model as a run of no training steps; returns the folder.

    Replaces only a model of the same settings and the same tokenizer.
    """
    with lock(folder):
        run = open_run(folder, settings(model, tokenizer))
        keep_sources(run.folder, model.config)
        if tokenizer is not None:
            run.keep_tokenizer(tokenizer.json)
        meta = {"run": run.identity, **as_meta(model.config)}
        checkpoint.save(run.checkpoints, 0, {"model": model.state_dict()}, meta)
    return run.folder


def save_rounded(folder: str | Path, out: str | Path) -> Path:
    """Saves the newest model of a run in `out`, a run of its own with the weights rounded to bfloat16; returns `out`.

    It has the settings of the run and its tokenizer, but no rows and no state of a training; `load` computes with it in
    the dtype of the run. Raises as `load` does, and ValueError where `out` is another run.
    """
    model, run = load(folder)
    step = _checkpoint(run, None).step
    with lock(out):
        rounded = open_run(out, {**run.settings, "stored": BF16})
        if run.has_tokenizer():
            rounded.keep_tokenizer(run.tokenizer.read_text(encoding="utf-8"))
        meta = {"run": rounded.identity, **as_meta(model.config)}
        checkpoint.save(rounded.checkpoints, step, {"model": _convert(model.state_dict(), torch.bfloat16)}, meta)
    return rounded.folder


def load(folder: str | Path, *, step: int | None = None, device: str | torch.device = "cpu") -> tuple[Model, Run]:
    """The model of a run, ready to read and generate, and the run. The newest step unless one is given.

    FileNotFoundError where there is no run or no checkpoint; ValueError, in one line, where a file is damaged, belongs
    to other settings, or was written by a newer seqloom, and where the model does not fit into memory. Where the code
    of a mixer has changed since, a line on standard error says so: the weights are of another equation.
    """
    run = find_run(folder)
    if run.is_foreign:
        if step is not None:
            raise ValueError(f"{run.folder} is a model of transformers, which has no steps: leave out step")
        return foreign.load(run.folder, device), run
    config = config_of(run)
    weights = describe_weights(run, config)
    require_memory(
        f"loading the model in {run.folder}",
        2 * sum(tensor.nbytes for tensor in weights.values()),  # those of the file, and those of the model
        "use a machine with more memory",
    )
    saved = _checkpoint(run, step)
    saved = with_merged_adapters(saved, run.settings)
    if saved.meta.get("run") != run.identity:
        raise ValueError(f"{saved.path} belongs to other settings than {run.config}: put the right config.json back")
    _require_fit(weights, saved, sized=not config.grows)  # before it is built: many layers take long
    edited = [name for name in changed_kinds(of_meta(saved.meta), codes(config)) if not is_copy(run.folder, name)]
    if edited:
        print(f"{changed_words(edited)} {run.folder} was saved: the model computes something else", file=sys.stderr)
    model = config.build().to(dtype(run))
    fill(model, replace(saved, tensors={"model": _convert(saved.tensors["model"], dtype(run))}))
    return model.to(device).eval(), run


def fill(module: nn.Module, saved: checkpoint.Checkpoint, group: str = "model") -> None:
    """Puts a group of a checkpoint into a module. ValueError, in one line, where names or shapes do not agree."""
    growing = module if isinstance(module, Model) and module.config.grows else None
    _require_fit(module.state_dict(), saved, group, sized=growing is None)
    if growing is not None:
        for name, tensor in saved.tensors[group].items():
            owner, _, buffer = name.rpartition(".")
            setattr(growing.get_submodule(owner), buffer, torch.empty_like(tensor, device=growing.device))
    module.load_state_dict(saved.tensors[group])


def config_of(run: Run) -> ModelConfig:
    """The settings of the run's model. ValueError where they are of a newer format, broken, or of a study."""
    settings = run.settings
    if "study" in settings:
        raise ValueError(
            f"{run.folder} holds a study, not a run: its runs are in its subfolders, which "
            f"`seqloom runs {run.folder}` lists"
        )
    if not isinstance(settings.get("format"), int) or "model" not in settings:
        raise ValueError(f"{run.config} does not describe a model: it has no 'format' and 'model'")
    if settings["format"] > FORMAT:
        raise ValueError(
            f"{run.config} was written by a newer seqloom (format {settings['format']}; this one reads "
            f"up to {FORMAT}): upgrade seqloom"
        )
    try:
        with known_code(run.folder):
            config = model_config(settings["model"])
    except ValueError as error:
        raise ValueError(f"{run.config} does not describe a model: {error}") from None
    return config


def dtype(run: Run) -> torch.dtype:
    """The dtype of the weights: float64 where a training or a model that was saved alone says so."""
    settings = run.settings
    training = settings.get("training")
    sections = (settings, training if isinstance(training, dict) else {})
    return torch.float64 if any(section.get("precision") == "float64" for section in sections) else torch.float32


def describe_weights(run: Run, config: ModelConfig) -> dict[str, torch.Tensor]:
    """The weights in the run's files, by name, without memory.

    ValueError where a size is beyond those of torch.
    """
    try:
        tensors = config.tensors()
    except (RuntimeError, TypeError, OverflowError):  # torch's error where a size is beyond its integers
        raise ValueError(f"{run.config} describes a model of sizes that no machine can hold") from None
    return _convert(tensors, torch.bfloat16 if run.settings.get("stored") == BF16 else dtype(run))


def _convert(tensors: Mapping[str, torch.Tensor], to: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors by name, those of reals in another dtype."""
    return {name: tensor.to(to) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def _checkpoint(run: Run, step: int | None) -> checkpoint.Checkpoint:
    """The newest checkpoint of the run that verifies, or that of a step; FileNotFoundError where there is none."""
    if step is None:
        saved = checkpoint.peek(run.checkpoints)
        if saved is None:
            raise FileNotFoundError(f"{run.folder} has no checkpoint that can be read: train it first")
        return saved
    saved_steps = steps.whole(run.checkpoints)
    if step not in saved_steps:
        raise FileNotFoundError(
            f"{run.folder} has no checkpoint of step {step}; there is {', '.join(map(str, saved_steps))}"
        )
    return checkpoint.load(saved_steps[step])


def _require_fit(
    wanted: dict[str, torch.Tensor], saved: checkpoint.Checkpoint, group: str = "model", sized: bool = True
) -> None:
    """ValueError unless the checkpoint's group has the names, dtypes and, if `sized`, the sizes of `wanted`."""
    if group not in saved.tensors:
        raise ValueError(f"{saved.path} holds no {group}: it has no group of tensors of that name")
    weights = saved.tensors[group]
    for name in sorted({*weights, *wanted}):
        saved_shape = _shape(weights, name, sized)
        wanted_shape = _shape(wanted, name, sized)
        if saved_shape != wanted_shape:
            raise ValueError(
                f"{saved.path} does not fit the {group}: {name} is {saved_shape} there and {wanted_shape} here"
            )


def _shape(tensors: dict[str, torch.Tensor], name: str, sized: bool) -> str:
    """A tensor's shape and dtype as text; unless `sized`, the number of its dimensions in place of the shape."""
    if name not in tensors:
        return "absent"
    shape = tensors[name].shape
    return f"{tuple(shape) if sized else f'{len(shape)}-D'} {tensors[name].dtype}"
