"""From a preset and changes to plain values, before they are checked. Needs no torch.

    preset_values("paper/small", ["model.mixer.kind=she", "training.batches=100"])

A preset is a recipe's name or a YAML file. A change is `a.b=value`, its value read as YAML. Naming another kind of
mixer, schedule, objective or position drops the settings of the one before it; changes that follow are the new one's.
So does another `model.ffn.kind`, except for the width. `training.stages` sets `training.batches`, their
sum, unless that is set next to them. A warm-up such as 5% becomes that part of `training.batches`, in steps: a recipe
can be run for few batches, and a run of its own length is stored as if the steps stood there.

    preset_values("llama/small", ["model=mamba/small"])      Mamba's model under Llama's data, context and training

`model=PRESET` comes before all other changes, in whatever order they are given. A model that counts has no gradients:
where it comes into another preset, those of that preset's settings that are about gradients are dropped.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.core.feed_forward import KIND, by_new_names, new_path
from seqloom.core.files import read_text
from seqloom.core.yaml_text import LONGEST, parse_yaml
from seqloom.training.recipes import recipe

GRADIENTS = (
    *(
        "accumulate",
        "lr",
        "betas",
        "weight_decay",
        "clip",
        "graph",
        "pieces",
        "compile",
        "schedule",
        "optimizer",
        "decay",
    ),
    *("stages", "through", "begin", "vectors"),
)
"""training settings that a model without gradients has no use for"""
COUNTING = ("ngram", "hmm")
"""the kinds of models that count, without gradients"""
ENDLESS = ("constant", "noam")
"""the schedules that do not depend on the length of the run"""


def counts(preset: str) -> bool:
    """Whether the model of a preset counts; False where it cannot be read, which is an error where it is used."""
    try:
        model = _read(preset).get("model")
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(model, dict) and model.get("kind") in COUNTING


def preset_values(preset: str, changes: Sequence[str] = (), source: str | None = None) -> dict[str, Any]:
    """The values of a preset with changes; `source`, where given, is the text, word for word and not as YAML.

    ValueError, in one line, for an unknown preset, what is not readable, and a vocabulary set in the wrong section.
    """
    values = _read(preset)
    own_batches = values["training"].get("batches") if isinstance(values.get("training"), dict) else None
    for change in sorted(changes, key=lambda change: not change.startswith("model=")):
        name, sign, text = change.partition("=")
        if not sign or not name:
            raise ValueError(f"--set needs name=value, such as model.mixer.kind=she, not {change!r}")
        value = _value(text, change)
        if name == "model" and isinstance(value, str):
            values["model"] = _model_of(value, values.get("model"))
            if counts(value):
                _prepare_counting(values)
        else:
            _put(values, name.split("."), value)
    if source is not None:
        if isinstance(values.get("data"), dict) and values["data"].get("sources"):
            raise ValueError("--data and data.sources both name the text: choose one")
        _put(values, ["data", "source"], source)
    names = {change.partition("=")[0] for change in changes}
    _count_stages(values.get("training"), names)
    _count_warmup(values.get("training"), own_batches)
    data = values.get("data")
    if "data.tokenizer" in names and "data.vocab" not in names and isinstance(data, dict) and data.get("tokenizer"):
        _size_tokenizer(data)
    if isinstance(values.get("model"), dict) and isinstance(data, dict):
        vocab = data.get("vocab", 5000)
        vocab = 5000 if vocab is None else vocab  # until the tokenizer is read
        if values["model"].setdefault("vocab", vocab) != vocab:
            raise ValueError("model.vocab follows from the tokenizer; set data.vocab")
    return values


def _size_tokenizer(data: dict[str, Any]) -> None:
    """Drops the preset's `data.vocab`, which is of a tokenizer that is trained; a vocabulary of words keeps it."""
    if data["tokenizer"] != "words":
        data["vocab"] = None
    elif data.get("vocab") is None:
        data.pop("vocab", None)


def _count_stages(training: Any, names: set[str]) -> None:
    """Sets the batches of a training to those of its stages, unless both stand in the preset or both were changed."""
    stages = training.get("stages") if isinstance(training, dict) else None
    if not isinstance(stages, list) or "training.batches" in names:
        return
    batches: list[Any] = [stage.get("batches") for stage in stages if isinstance(stage, dict)]
    if not stages or len(batches) < len(stages) or not all(type(number) is int for number in batches):
        return  # an error of the stages, which their own check reports
    if "training.stages" in names or "batches" not in training:
        training["batches"] = sum(batches)


def _count_warmup(training: Any, own_batches: Any) -> None:
    """Sets a warm-up in percent to its number of steps, at least 1. ValueError where it is no share of the batches.

    A run under a schedule without an end may be continued beyond the `own_batches` of its preset: its warm-up stays.
    """
    schedule = training.get("schedule") if isinstance(training, dict) else None
    if not isinstance(schedule, dict):
        return
    warmup = schedule.get("warmup")
    if not isinstance(warmup, str) or not warmup.endswith("%"):
        return  # a number; an error of other texts is reported by the check of types
    batches = training.get("batches")
    if type(batches) is not int:
        raise ValueError(f"training.schedule.warmup={warmup} is a part of training.batches: set that, too")
    try:
        share = float(warmup.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f"training.schedule.warmup={short(warmup)} is no part of the run: give e.g. 5%")
    if schedule.get("kind") in ENDLESS and type(own_batches) is int:
        batches = min(batches, own_batches)
    schedule["warmup"] = max(1, round(share * batches))


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    """Sets the value at a path, and drops the settings that belonged to the kind which it replaces."""
    path = new_path(path, value)
    for depth, name in enumerate(path[:-1]):
        inner = values.setdefault(name, {})
        if isinstance(inner, list) and path[depth:] in (["mixer", "kind"], ["ffn", "kind"]):
            inner = {}  # one kind for all layers replaces the list
            values[name] = inner
        if not isinstance(inner, dict):
            raise ValueError(f"{'.'.join(path[: depth + 1])} is {inner!r}, it has no setting {path[depth + 1]!r}")
        values = inner
    if path[-1] == "position" and isinstance(value, str):  # a name stands for its settings
        value = {"kind": value}
    names_kind = path[-1] == "kind" and path[-2:-1] in (["mixer"], ["schedule"], ["objective"], ["position"], ["ffn"])
    if names_kind and values.get("kind", KIND if "ffn" in path else value) != value:
        for name in values.keys() - {"width"}:  # another kind has other settings, but a feed-forward's width
            del values[name]
    values[path[-1]] = value


def _value(text: str, change: str) -> Any:
    """The value of a change, given its text after the equals sign."""
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"--set {short(change)}: the value is not readable YAML ({error})") from None


def short(text: str) -> str:
    """A text of a user's, cut to what a message has room for."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(preset: str) -> dict[str, Any]:
    """The values of a recipe or of a YAML file, with a position that is a name as settings of that kind."""
    values = _file(Path(preset)) if preset.endswith((".yaml", ".yml")) else recipe(preset)
    model = values.get("model")
    if not isinstance(model, dict):
        return values
    if isinstance(model.get("position"), str):
        _put(values, ["model", "position"], model["position"])
    return {**values, "model": by_new_names(model)}


def _model_of(preset: str, before: Any) -> Any:
    """The model of a preset in place of another: it reads the same batches, so context and vocabulary stay."""
    model = _read(preset).get("model")
    if not isinstance(model, dict) or not isinstance(before, dict):
        return model
    sizes = {name: before[name] for name in ("context", "vocab") if name in before}
    return {name: value for name, value in model.items() if name != "vocab"} | sizes


def _prepare_counting(values: dict[str, Any]) -> None:
    """Drops the settings of training by gradients, and cuts the text so that every token is counted once."""
    training = values.get("training", {})
    values["training"] = {name: value for name, value in training.items() if name not in GRADIENTS}
    values.setdefault("data", {})["disjoint"] = True


def _file(path: Path) -> dict[str, Any]:
    """The values of a YAML file. FileNotFoundError or ValueError, in one line, where it is none."""
    try:
        text = read_text(path, LONGEST)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such preset file") from None
    except OSError as error:
        raise ValueError(f"{path}: the preset file cannot be read ({error.strerror})") from None
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"{path} is not readable YAML: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no settings: it needs model, data and training")
    return values
