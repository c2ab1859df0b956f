"""A training step of each mixer, timed in turns, and the effect of reusing freed memory (`--freed`: without reuse)."""

import sys

from harness import append, compare, gate

from seqloom.studies.candidates import parse_candidate
from seqloom.studies.demo import MIXERS
from seqloom.studies.random_batches import training_step
from seqloom.training.memory import keep_freed_memory
from seqloom.training.settings import resolve


def main() -> None:
    gate("tests/ops", "tests/mixers", "tests/training/test_optimizers.py")
    kept = "--freed" not in sys.argv and keep_freed_memory()
    preset = next((word for word in sys.argv[1:] if not word.startswith("--")), "paper/small")
    steps = {}
    for name, changes in ((each.name, each.changes) for each in map(parse_candidate, MIXERS)):
        config = resolve(preset, [*changes, "data.source=stories"])
        steps[name] = training_step(config.model, config.training)
    found = compare(steps, peer="attention-heads=32", repeats=15, warm=2)
    append("step", [row(preset, name, kept, found) for name in steps])


def row(preset, name, kept, found):
    median, *quartiles = found["ms_median_quartiles"][name]
    ratio, *between = found["ratio_median_quartiles"][name]
    return {
        "preset": preset,
        "mixer": name,
        "freed_memory_kept": bool(kept),
        "ms_median": median,
        "ms_quartiles": quartiles,
        "ratio_to_attention_32": ratio,
        "ratio_quartiles": between,
        "repeats": found["repeats"],
        "loaded": found["loaded"],
    }


if __name__ == "__main__":
    main()
