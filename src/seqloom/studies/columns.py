"""The columns of a comparison: their names, units, the better direction, and their meaning."""

from typing import Any

from seqloom.data.probes import probe

STATISTICS = ("± held-out", "to baseline", "± to baseline", "adjusted p", "could settle")
"""columns of statistics over the seeds; a table with one seed does not have them"""
GENERATED = "ms a generated token"
"""the time of a token, in a table that has no such time after texts of given lengths"""
OPTIONAL = (*STATISTICS, "bits a byte", "right", GENERATED, "table bytes")
"""columns that a table omits where no contender has a value"""
COLUMNS: dict[str, tuple[str, str, str]] = {
    "held-out loss": (
        "nats a token",
        "lower",
        "mean loss over held-out text, of all tokens or of the masked ones",
    ),
    "± held-out": ("nats a token", "", "half of Student's 95% interval of the mean, from the contender's own seeds"),
    "to baseline": ("nats a token", "lower", "held-out loss minus that of the baseline"),
    "± to baseline": ("nats a token", "", "half of the 95% interval of that difference, without Holm's correction"),
    "adjusted p": ("", "", "two-sided p of no difference, by Holm's correction over the table; significant below 0.05"),
    "could settle": ("nats a token", "", "the smallest difference of this contender that would have been significant"),
    "bits a byte": ("bits", "lower", "held-out loss for each byte of text, whatever the tokenizer"),
    "right": ("share", "higher", "masked tokens, or examples, of the held-out data that were predicted correctly"),
    "training loss": ("nats a token", "lower", "median over the last tenth of the training batches"),
    "parameters": ("numbers", "lower", "trainable parameters of the whole model"),
    "operations a token": (
        "operations",
        "lower",
        "of the whole model's forward equation, mean over a full window",
    ),
    "ms a step": ("ms", "lower", "a training step, median of a race in which all models take turns"),
    "peak MB a step": ("MB", "lower", "most memory that a training step holds beyond model and optimizer"),
    GENERATED: (
        "ms",
        "lower",
        "one text, from its first token until the window is full; raced",
    ),
    "state bytes": ("bytes", "lower", "state of one text between tokens once the window is full"),
    "table bytes": ("bytes", "lower", "counts of a model that is trained without gradients, in place of parameters"),
    "grammatical": ("share", "higher", "sampled sentences (top-p 0.9) that are sentences of the grammar"),
    "agreeing": (
        "share",
        "higher",
        "grammatical sentences that also agree with their story's names, things and places",
    ),
}


def describe_columns(names: list[str]) -> list[dict[str, Any]]:
    """The columns with these names, in the order of the table."""
    return [_column(name, unit, better, meaning) for name, (unit, better, meaning) in COLUMNS.items() if name in names]


def at_length(tokens: int) -> dict[str, dict[str, Any]]:
    """The columns for texts of `tokens` tokens, by the names of the fields of `decoding.Token`."""
    after = f"after {tokens:,} tokens, of a model with that context"
    return {
        "ms_per_token": _column(
            f"ms a token at {tokens:,}", "ms", "lower", f"one more token of one text {after}; each model alone"
        ),
        "state_bytes": _column(f"state bytes at {tokens:,}", "bytes", "lower", f"state of one text {after}"),
    }


def of_probe(title: str, batches: int) -> dict[str, Any]:
    """The column of a probe on which models were trained for at most `batches` batches."""
    measured = f"correct answers of a small model that was trained on this probe alone, for at most {batches:,} batches"
    meaning = f"{measured}; guessing gives {probe(title).chance:.1%}"
    return _column(f"{title} right", "share", "higher", meaning)


def _column(name: str, unit: str, better: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "unit": unit, "better": better, "meaning": meaning}
