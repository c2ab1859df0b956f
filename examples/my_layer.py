"""A layer of your own in a comparison: any nn.Module from (B, T, D) to (B, T, D), written without seqloom.

python examples/my_layer.py TEXT OUT        or on the command line:
seqloom compare attention:heads=4 examples/my_layer.py:DecayedMean --data TEXT --out OUT

`examples/my_mixer` is the same equation as a mixer of a package, with a price and promises that are checked.
"""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

import seqloom
from seqloom.studies.comparison_rows import ComparisonRows


class DecayedMean(nn.Module):
    """Every token reads an exponentially weighted sum of all before it, with a learned decay per channel."""

    def __init__(self, dim: int, decay: float = 0.9) -> None:
        super().__init__()
        self.w = nn.Linear(dim, dim, bias=False)
        self.w_out = nn.Linear(dim, dim, bias=False)
        self.alpha = nn.Parameter(torch.logit(torch.full((dim,), decay)))

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = self.start(len(x)).to(x), []
        for token in x.unbind(1):
            y, state = self.step(token, state)
            outputs.append(y)
        return torch.stack(outputs, 1)

    def start(self, batch: int) -> Tensor:
        """The sum before the first token (B, D); with `step`, models read on from it."""
        return torch.zeros(batch, len(self.alpha))

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        a = self.alpha.sigmoid()
        state = a * state + (1 - a) * self.w(x)
        return self.w_out(state), state


def main(text: str, out: str, settings: Mapping[str, Any] | None = None) -> ComparisonRows:
    """Trains attention and the layer on a text, prints their table, writes the report; returns the rows."""
    rows = seqloom.compare(["attention:heads=4", DecayedMean], data=text, out=out, settings=settings)
    print(rows.table())
    print(f"the report is {rows.report()}")
    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
