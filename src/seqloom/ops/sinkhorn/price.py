"""What balancing costs: an exponential of each entry, then sums and divisions of rows and columns."""

from seqloom.core.cost import Cost, Step


def price(entries: int, rows: int, columns: int, steps: int) -> Cost:
    """Of so many entries in all, in so many rows and columns that have any; `steps` of both, or of rows alone if 0."""
    turns = max(steps, 1)
    sums = turns * (entries - rows) + (steps * (entries - columns) if steps else 0)
    normalized: tuple[Step, ...] = ("cumulation", "division")
    path: tuple[Step, ...] = ("exponentiation", *normalized * (turns + steps))
    return Cost(add=sums, div=(turns + steps) * entries, exp=entries, path=path)
