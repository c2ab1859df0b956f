"""Fitted exponents of time and space for the systems of seed 004's Table I, next to those that the table prints.

    .venv/bin/python benchmarks/slopes.py

A row for each system and quantity: the exponents over the length n and the width d, measured and printed. Operations
are counted and bytes measured; nothing is timed, so other load on the machine does not matter.
"""

from harness import append, gate

from seqloom.analysis.claims import TABLE_I, VARIANTS
from seqloom.analysis.slopes import MEASURED, PRICED, QUANTITIES, growth

TESTS = ("tests/analysis/test_slopes.py",)
WORDS = {
    "core": "operations without projections",
    "operations": "operations",
    "forward": "bytes at the peak of a forward",
    "kept": "bytes kept for a backward",
    "state": "numbers of state",
}


def rows():
    """One for each system and quantity, as they are found."""
    for claim in (*TABLE_I, *VARIANTS):
        for quantity in QUANTITIES:
            found = growth(claim, quantity)
            sizes = MEASURED if quantity in ("forward", "kept") else PRICED
            yield {
                "system": claim.system,
                "quantity": WORDS[quantity],
                "printed_for": "time" if quantity in ("core", "operations") else "space",
                "over_n": round(found.measured[0], 2),
                "over_d": round(found.measured[1], 2),
                "printed_over_n": round(found.printed[0], 2),
                "printed_over_d": round(found.printed[1], 2),
                "agrees": found.agrees(),
                "n": sizes["n"],
                "d": sizes["d"],
                "backends": claim.backends if quantity in ("forward", "kept") else {},
            }


def main() -> None:
    """Fits all and appends the rows."""
    gate(*TESTS)
    for row in rows():
        append("slopes", [row])


if __name__ == "__main__":
    main()
