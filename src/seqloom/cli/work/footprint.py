"""What `seqloom plan` prints: memory of a GPU by part, bytes that it sends in a step, and the speed that is assumed.

tokens a second = GPUs · share · peak / (operations of a step / tokens of a step)
"""

import math
from collections.abc import Sequence

from seqloom.analysis.peaks import PEAKS
from seqloom.core.progress import format_duration
from seqloom.core.table import table
from seqloom.training.config import RunConfig
from seqloom.training.footprint import Footprint, Ranks, footprint
from seqloom.training.settings import resolve

CARD = "NVIDIA H100 80GB HBM3"
"""the card whose peak is taken where none is given"""
PARTS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "logits": "logits",
    "gathered": "weights of other GPUs, gathered",
    "summed": "gradients that are summed, a copy",
    "at_once": "all, at most at once",
}


def describe(preset: str, changes: Sequence[str], gpus: int, per_machine: int, peak: float | None, share: float) -> str:
    """The plan as text. ValueError for settings that do not fit, a share beyond 1 and a peak that is no number."""
    if not 0 < share <= 1:
        raise ValueError(f"--share-of-peak must lie above 0 and be at most 1, not {share}")
    if peak is not None and not (math.isfinite(peak) and peak > 0):
        raise ValueError(f"--peak must be a number of 10^12 operations a second, not {peak}")
    config = resolve(preset, changes)
    needs = footprint(config, Ranks(gpus, per_machine))
    parts = [(words, getattr(needs, name) / 1e9) for name, words in PARTS.items() if getattr(needs, name)]
    lines = [
        _title(preset, config, gpus, per_machine),
        "",
        f"{needs.parameters:,} parameters, {needs.tokens:,} tokens a step, {config.training.batches:,} steps",
        "",
        table(("memory of a GPU", "GB"), parts),
        "",
        *_traffic(needs),
        *_rates(config, needs, gpus, peak, share),
        "",
        *_assumptions(config),
    ]
    return "\n".join(lines)


def _title(preset: str, config: RunConfig, gpus: int, per_machine: int) -> str:
    """The training in words: where it runs, and what a GPU reads at once."""
    training = config.training
    machines = math.ceil(gpus / per_machine)
    rows = training.batch // training.accumulate // gpus
    read = f"{rows:,} row{'s' if rows > 1 else ''} of {config.model.context:,} tokens"
    where = "1 GPU" if gpus == 1 else f"{gpus:,} GPUs" + (f" of {machines:,} machines" if machines > 1 else "")
    how = f"training.shard={training.shard}, {training.precision}"
    return f"{preset} on {where}, {how}: {read} at once on each"


def _rates(config: RunConfig, needs: Footprint, gpus: int, peak: float | None, share: float) -> list[str]:
    """Tokens a second and the time of the run, at a share of the peak of all GPUs."""
    measured = PEAKS[CARD].get(config.training.precision)
    if peak is None and measured is None:
        return [f"the speed is not known: no peak was measured in {config.training.precision}; add --peak"]
    best = 1e12 * peak if peak is not None else measured
    assert best is not None
    seconds = needs.operations / (gpus * share * best)
    source = "--peak" if peak is not None else f"the fastest product of matrices measured on an {CARD}"
    lines = [
        f"{needs.tokens / seconds:,.0f} tokens a second, {format_duration(seconds * config.training.batches)} for all "
        f"steps, at {share:.0%} of {best / 1e12:,.0f} · 10^12 operations a second a GPU",
        f"({source})",
    ]
    if needs.sent:
        lines.append(f"for that, a GPU must send {needs.sent / seconds / 1e9:,.3g} GB a second while it computes")
    return lines


def _traffic(needs: Footprint) -> list[str]:
    return [f"each GPU sends {needs.sent / 1e9:,.3g} GB a step"] if needs.sent else []


def _assumptions(config: RunConfig) -> list[str]:
    """What the numbers leave out or take for granted."""
    lines = [
        "activations: what the step's program holds on a CPU; logits: a piece of a GPU's size; CUDA, NCCL and the",
        "memory that torch cannot use again come on top. Sent: by rings, the least; the share of the peak is assumed.",
    ]
    if config.training.shard != "none":
        lines.append("Copies of the gradients of two layers, which torch makes before it sends them, are left out.")
    if config.training.offload:
        lines.append("training.offload: weights and optimizer lie on the CPU, and are not in the last line.")
    if config.training.compile:
        lines.append("training.compile: counted as if it were not set; it holds less.")
    return lines
