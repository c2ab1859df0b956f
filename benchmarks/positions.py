"""What a bias by distance costs attention, and a gradient of T5's table: forward and backward, without projections."""

import torch
from harness import append, compare, gate

from seqloom.ops.attention import Bias, attend
from seqloom.positions.alibi import ALiBi
from seqloom.positions.t5 import T5Positions

T, HEADS, WIDTH = 2048, 4, 64


def main() -> None:
    gate("tests/ops/test_attention_scores.py", "tests/positions/test_equations.py")
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, T, WIDTH, requires_grad=True) for _ in range(3))
    dy = torch.randn(1, HEADS, T, WIDTH)
    positions = {"plain": None, "alibi": ALiBi(HEADS), "t5": T5Positions(HEADS, 32, 128, causal=True)}

    def run(name: str) -> None:
        position, bias = positions[name], None
        if position is not None:
            relation = position(T - 1, 0, alone=False)
            bias = Bias(relation.values.float(), relation.first)
        attend(q, k, v, bias=bias).backward(dy)
        for leaf in (q, k, v):
            leaf.grad = None

    runs = {name: lambda name=name: run(name) for name in positions}
    append("positions", [{"T": T, "heads": HEADS, "width": WIDTH, **compare(runs, peer="plain", repeats=21)}])


if __name__ == "__main__":
    main()
