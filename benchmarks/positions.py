"""Time of attention with a bias by distance (ALiBi, T5 with gradient): forward and backward, without projections.

    python benchmarks/positions.py [--quick]

Writes a row with each goal, as a ratio to plain causal attention's time, and whether it is met.
"""

import sys

import torch
from harness import append, compare, gate

from seqloom.ops.attention import Bias, attend
from seqloom.positions.alibi import ALiBi
from seqloom.positions.t5 import T5Positions

T, HEADS, WIDTH = 2048, 4, 64
GOALS = {"alibi": 1.15, "t5": 1.6}
"""of the time of plain causal attention, at most"""


class Attending:
    """Called, it attends with the biases of `position` or none, and takes the gradients of q, k, v and of its table."""

    def __init__(self, position):
        torch.manual_seed(0)
        self.position = position
        self.q, self.k, self.v = (torch.randn(1, HEADS, T, WIDTH, requires_grad=True) for _ in range(3))
        self.dy = torch.randn(1, HEADS, T, WIDTH)

    def __call__(self):
        bias, table = None, []
        if self.position is not None:
            relation = self.position(T - 1, 0, alone=False)
            bias = Bias(relation.values.float(), relation.first)
            table = [weight for weight in self.position.parameters() if weight.requires_grad]
        y = attend(self.q, self.k, self.v, bias=bias)
        return torch.autograd.grad(y, [self.q, self.k, self.v, *table], self.dy)


def row(repeats):
    """All in one race."""
    positions = {"plain": None, "alibi": ALiBi(HEADS), "t5": T5Positions(HEADS, 32, 128, causal=True)}
    found = compare({name: Attending(position) for name, position in positions.items()}, "plain", repeats)
    met = {name: found["ratio_median_quartiles"][name][0] <= goal for name, goal in GOALS.items()}
    return {"T": T, "heads": HEADS, "width": WIDTH, **found, "goals": GOALS, "met": met}


def main() -> None:
    gate("tests/ops/test_attention_scores.py", "tests/positions/test_equations.py")
    append("positions", [row(5 if "--quick" in sys.argv else 21)])


if __name__ == "__main__":
    main()
