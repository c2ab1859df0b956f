"""Errors of float32 against float64 in each mixer: outputs and gradients, next to the bound that the mixer states.

    .venv/bin/python benchmarks/rounding.py [KIND …]        all mixers take about 12 minutes

A row for each kind, settings and length: the largest error of SEEDS seeds at dims 8 and 64, in eps of float32, of the
output and of the gradients, and whose gradient it is. See `seqloom.analysis.rounding`. Nothing is timed.
"""

import sys

import torch
from harness import append, gate

from seqloom.analysis.rounding import errors
from seqloom.mixers import kinds, mixer_config

DIMS = (8, 64)
LENGTHS = (128, 4096)
SEEDS = 3
TESTS = ("tests/contract/test_numbers.py", "-m", "not slow")


def rows(chosen):
    """One for each kind, settings (the defaults and its examples) and length."""
    for kind in chosen:
        config = kinds()[kind]
        for settings in ({}, *(example for example in config.examples if example)):
            for T in LENGTHS:
                found = largest({"kind": kind, **settings}, T)
                output = found.pop("output")
                of = max(found, key=found.get)
                yield {
                    "mixer": kind,
                    "settings": settings,
                    "T": T,
                    "output_eps": round(output, 1),
                    "gradient_eps": round(found[of], 1),
                    "of": of,
                    "bound_eps": config.rounding.eps,
                    "within": max(output, found[of]) <= config.rounding.eps,
                    "dims": DIMS,
                    "seeds": SEEDS,
                }


def largest(settings, T):
    """The largest error of each tensor over dims and seeds."""
    found = {}
    for dim in DIMS:
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            for name, error in errors(mixer_config(settings).build(dim, T), T, seed).items():
                found[name] = max(found.get(name, 0.0), error if error == error else float("inf"))
    return found


def main() -> None:
    """Measures the kinds that are named, or all, and appends the rows."""
    gate(*TESTS)
    for row in rows(sys.argv[1:] or kinds()):
        append("rounding", [row])


if __name__ == "__main__":
    main()
