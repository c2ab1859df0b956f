"""The price of the steps, the same for every token."""

from seqloom.core.cost import Cost, Step


def price(rows: int, H: int, K: int, V: int, steps: int, decay: bool) -> Cost:
    """The price of `rows` tokens in H heads: e^g and its product with S; per step β k, k S and the write; q S."""
    numbers = H * K * V
    step: tuple[Step, ...] = ("multiplication", "cumulation", "addition", "multiplication", "addition")
    return Cost(
        mul=rows * (steps * (2 * numbers + H * K) + numbers + decay * numbers),
        add=rows * (steps * (H * (K - 1) * V + H * V + numbers) + H * (K - 1) * V),
        exp=rows * H * decay,
        path=(*steps * step, "multiplication", "cumulation"),
    )
