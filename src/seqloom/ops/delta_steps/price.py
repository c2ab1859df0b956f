"""What the steps cost: the same at every token."""

from seqloom.core.cost import Cost, Step


def price(rows: int, H: int, K: int, V: int, steps: int, decay: bool) -> Cost:
    """`rows` tokens in H heads: e^g and its product with S; for each step β k, k S and the write; q S."""
    numbers = H * K * V
    step: tuple[Step, ...] = ("multiplication", "cumulation", "addition", "multiplication", "addition")
    return Cost(
        mul=rows * (steps * (2 * numbers + H * K) + numbers + decay * numbers),
        add=rows * (steps * (H * (K - 1) * V + H * V + numbers) + H * (K - 1) * V),
        exp=rows * H * decay,
        path=(*steps * step, "multiplication", "cumulation"),
    )
