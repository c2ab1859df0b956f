"""From a preset and changes to the settings of a run.

    resolve("paper/small", ["model.mixer.kind=she", "training.batches=100"])

How presets and changes are read: `preset_values`. The position of a preset is a default: where a change gives every
layer a mixer without a place for it, there is none.
"""

from collections.abc import Callable, Sequence
from typing import Any

from seqloom import positions
from seqloom.core.config import read
from seqloom.core.layered import LayeredConfig
from seqloom.core.mixer_config import mixer_config
from seqloom.core.model import require_streams
from seqloom.core.model_config import ModelConfig, weightless
from seqloom.core.without_values import without_values
from seqloom.ops import backends
from seqloom.training.config import RunConfig
from seqloom.training.optimizers import matrices_of
from seqloom.training.pieces import require_pieces
from seqloom.training.preset import preset_values, short
from seqloom.training.stages import fit_window
from seqloom.training.stretches import require_stretches


def resolve(
    preset: str,
    changes: Sequence[str] = (),
    source: str | None = None,
    *,
    log: Callable[[str], object] | None = None,
) -> RunConfig:
    """The settings of a preset with changes; `source`, where given, is the text, word for word and not as YAML.

    `log` takes a line where the preset's position does not act in every layer, and one where a mixer is put into
    `both_ways`. ValueError, in one line, for unknown settings and for values that are not allowed, including sizes that
    a mixer refuses.
    """
    values = preset_values(preset, changes, source)
    note = _drop_position(values, changes)
    config: RunConfig = read(RunConfig, values)
    for line in (note, _describe_wrapped(values, config.model)):
        if line is not None and log is not None:
            log(line)
    objective = config.training.objective
    model = fit_window(objective.size_model(config.model), config.training.stages, objective.resizes)
    config = config.model_copy(update={"model": model})
    backends.check(config.backends)
    _build(config.model)
    if config.training.memory == "carry":
        require_streams(weightless(config.model), "be trained with training.memory=carry")
    if config.training.pieces > 1:
        require_pieces(weightless(config.model))
    if config.training.sequence > 1:
        require_stretches(weightless(config.model))
    if config.training.optimizer == "muon":
        matrices_of(weightless(config.model))
    return config


def _drop_position(values: dict[str, Any], changes: Sequence[str]) -> str | None:
    """Leaves out the preset's position where its mixers were changed and none has a place for it.

    One that was set by a change stays, and is an error. Returns a line about the mixers without a place, if any.
    """
    names = [change.partition("=")[0] for change in changes]
    mixers_changed = any(name == "model.mixer" or name.startswith("model.mixer.") for name in names)
    if not mixers_changed or any(name.startswith("model.position") for name in names):
        return None
    model = values["model"]
    try:
        kind = positions.kinds()[model["position"]["kind"]]
        mixer_values = model["mixer"] if isinstance(model["mixer"], list) else [model["mixer"]]
        mixers = [mixer_config(mixer) for mixer in mixer_values]
    except (KeyError, TypeError, ValueError):  # `read` raises the error
        return None
    if kind.place in (None, "embedding"):
        return None
    name = model["position"]["kind"]
    without_place = ", ".join(dict.fromkeys(mixer.kind for mixer in mixers if kind.place not in mixer.places))
    with_place = ", ".join(dict.fromkeys(mixer.kind for mixer in mixers if kind.place in mixer.places))
    if not with_place:
        model["position"] = {"kind": "none"}
        return f"model.position={name} of the recipe is left out: {without_place} has no place for it"
    return (
        f"model.position={name} acts in {with_place} alone: {without_place} has no place for it"
        if without_place
        else None
    )


def _describe_wrapped(values: dict[str, Any], model: ModelConfig) -> str | None:
    """A line about the mixers that were put into `both_ways`, if any."""
    if not isinstance(model, LayeredConfig):
        return None
    if model.encoder_pattern is None:
        name, mixer_values, pattern = "model.mixer", values["model"]["mixer"], model.pattern
    else:
        name, mixer_values, pattern = "model.encoder.mixer", values["model"]["encoder"]["mixer"], model.encoder_pattern
    kinds = [mixer["kind"] for mixer in (mixer_values if isinstance(mixer_values, list) else [mixer_values])]
    causal = dict.fromkeys(
        kind for kind, mixer in zip(kinds, pattern, strict=True) if kind != mixer.kind == "both_ways"
    )
    if not causal:
        return None
    return f"{name}: no bidirectional form of {', '.join(causal)}: each row is read both ways, by two of them"


def _build(model: ModelConfig) -> None:
    """Builds the mixers on the meta device, so that a mistake is reported before a text is read or a folder made."""
    if not isinstance(model, LayeredConfig):
        weightless(model)
        return
    with without_values():
        for mixer in dict.fromkeys(model.mixers):
            try:
                mixer.build(model.dim, model.reach, model.causal)
            except RuntimeError as error:  # a size beyond torch's integers
                raise ValueError(f"{mixer.kind} cannot be built of these sizes ({short(str(error))})") from None
