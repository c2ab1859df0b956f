"""What `seqloom swap` does: reads a model, replaces attention, saves a run; or counts what that would change."""

from pathlib import Path

from seqloom.analysis.swap_plan import LENGTHS, WINDOW, plan_model
from seqloom.core.table import table
from seqloom.face import load, save
from seqloom.models.attention_layers import layers_to_replace
from seqloom.models.config import TransformerConfig
from seqloom.models.swap import swap, swapped_settings
from seqloom.runs.layout import find_run
from seqloom.runs.model import config_of


def plan_swap(run: Path, to: str, keep: str) -> str:
    """The table of three models: with attention, with the swap, and with a window in the same layers."""
    config = _transformer(config_of(find_run(run)), run)
    layers = layers_to_replace(config, keep)
    swapped = swapped_settings(config, dict.fromkeys(layers, to))
    with_window = swapped_settings(config, {number: _with_window(config, number) for number in layers})
    models = [
        plan_model("attention in all layers", config),
        plan_model(f"{to} in {len(layers)} of {config.depth} layers", swapped),
        plan_model(f"a window of {WINDOW} in these layers", with_window),
    ]
    states, operations = (f"state after {n:,}, MB" for n in LENGTHS), (f"ops after {n:,}, M" for n in LENGTHS)
    heading = ("", "parameters", *states, *operations)
    rows = [
        (
            model.title,
            model.parameters,
            *(round(size / 1e6, 3) for size in model.state),
            *(round(count / 1e6, 1) for count in model.operations),
        )
        for model in models
    ]
    note = (
        "state: of one text in bf16, without the weights; ops: multiplications and additions of the next token\n"
        "a swapped model writes noise until it is trained"
    )
    return f"{table(heading, rows)}\n{note}"


def swap_model(run: Path, to: str, keep: str, out: Path, fresh: bool) -> str:
    """Saves the swapped model as a run; returns what each layer took over."""
    model = load(run)
    config = _transformer(model.config, run)
    layers = dict.fromkeys(layers_to_replace(config, keep), to)
    swapped, found = swap(model, layers, init="fresh" if fresh else "projections")
    swapped.tokenizer = model.tokenizer
    save(swapped, out)
    rows = [(layer.number, layer.kind, ", ".join(layer.taken_over) or "-", ", ".join(layer.drawn)) for layer in found]
    listed = table(("layer", "mixer", "taken over", "new"), rows)
    return f"{listed}\nthe run is {out}; it writes noise until it is trained"


def _transformer(config: object, run: Path) -> TransformerConfig:
    if not isinstance(config, TransformerConfig):
        raise ValueError(f"{run} has no layers with attention")
    return config


def _with_window(config: TransformerConfig, number: int) -> dict[str, object]:
    """The settings of a layer's attention, with a window."""
    return {**config.mixers[number].model_dump(mode="json"), "window": WINDOW}
