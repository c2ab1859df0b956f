"""What `seqloom distill` prints: the plan of a distillation, and the table of what it gave."""

import re
from collections.abc import Sequence
from typing import Any

from seqloom.analysis.distill_plan import plan
from seqloom.core.table import table
from seqloom.core.yaml_text import parse_yaml
from seqloom.models.attention_layers import layers_to_replace
from seqloom.models.swap import swapped_settings
from seqloom.training.distillation import AUTO, SHARES, Distillation
from seqloom.training.distilling import Distilled

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def count_tokens(text: str) -> int:
    """The number that `20M` or `500k` names. ValueError for anything else."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([kMG]?)", text)
    if found is None:
        raise ValueError(f"--tokens is a number such as 20M, 500k or 100000, not {text[:30]!r}")
    return round(float(found[1]) * UNITS[found[2]])


def read_training(changes: Sequence[str]) -> dict[str, Any]:
    """The settings that `training.precision=bf16` and others name. ValueError for those of anything else."""
    found = {}
    for change in changes:
        name, sign, text = change.partition("=")
        section, _, setting = name.partition(".")
        if not sign or section != "training" or not setting or "." in setting:
            raise ValueError(f"--set is a setting of the training here, as training.precision=bf16, not {change!r}")
        found[setting] = parse_yaml(text)
    return found


def plan_distillation(asked: Distillation) -> str:
    """Memory by part and operations by stage, counted from settings alone."""
    config = asked.config
    keep = asked.keep.removeprefix(AUTO)
    layers = layers_to_replace(config, keep)
    student = swapped_settings(config, dict.fromkeys(layers, asked.to))
    shares = {**SHARES, "loss": 1 - sum(SHARES.values())}
    planned = plan(config, student, layers, asked.batch, asked.context or config.context)
    memory = [(name, round(size / 1e6, 1)) for name, size in planned.memory.items()]
    stages = [
        (name, round(share * asked.batches), share * asked.tokens * planned.operations[name] / 1e12)
        for name, share in shares.items()
    ]
    which = "which ones is found by a window" if asked.keep.startswith(AUTO) else ", ".join(map(str, layers))
    return "\n".join(
        [
            f"{asked.to} in {len(layers)} of {config.depth} layers: {which}",
            "",
            table(("in memory, in float32", "MB"), memory),
            "",
            table(("stage", "batches", "operations, 10^12"), stages),
            "",
            f"{asked.tokens:,} tokens in {asked.batches:,} batches; activations are counted for the first stage alone, "
            "and --baselines trains for as many tokens twice more",
        ]
    )


def show_rows(found: Distilled, asked: Distillation) -> str:
    """The rows of a distillation."""
    lines = []
    if found.given:
        order = ((step.layer, step.loss) for step in found.given)
        lines += [table(("layer that got a window, in this order", "loss, nats a token"), list(order)), ""]
    rows = [(row.model, row.loss, "-" if row.recovered is None else f"{row.recovered:.0%}") for row in found.rows]
    lines.append(table(("model", "held-out loss, nats a token", "recovered of what removal costs"), rows))
    layers = ", ".join(map(str, found.layers))
    lines += ["", f"{asked.to} in layers {layers}; the student is {asked.out}"]
    return "\n".join(lines)
