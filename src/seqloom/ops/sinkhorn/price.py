"""The price of Sinkhorn balancing: an exponential per entry, then sums and divisions of rows and columns."""

from seqloom.core.cost import Cost, Step


def price(entries: int, rows: int, columns: int, steps: int) -> Cost:
    """The price of balancing `entries` numbers in non-empty rows and columns `steps` times; with 0 steps, rows only."""
    turns = max(steps, 1)
    sums = turns * (entries - rows) + (steps * (entries - columns) if steps else 0)
    normalized: tuple[Step, ...] = ("cumulation", "division")
    path: tuple[Step, ...] = ("exponentiation", *normalized * (turns + steps))
    return Cost(add=sums, div=(turns + steps) * entries, exp=entries, path=path)
