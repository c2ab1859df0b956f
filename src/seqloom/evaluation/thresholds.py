"""A threshold for each layer, by grid search: the fewest layers after which predictions are still as right.

    l_t = min {l: c_tl ≥ τ_l}, or L                     c_tl: how sure token t is after layer l (`seqloom.depth`)
    minimize mean_t l_t  where  the share of right tokens after l_t ≥ that after L, less δ
    τ_1 … τ_{L-1} of a grid: all combinations, or 10,000 that are drawn, those of equal thresholds among them

Every window is read with all layers, so that tokens look back on those; in a text they look back on exits.

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 4.2, who compare losses of whole texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, progress
from seqloom.core.seeds import require_seed
from seqloom.data.probes.draws import Draws
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.depth.classifier import Confident, seen
from seqloom.evaluation.scores import require_logits, require_tokens

MOST = 10_000
"""combinations that are tried"""
READ = 8192
"""tokens, about, that they are tried on"""
ROWS = 16
"""windows that are read at once"""


@final
@dataclass(frozen=True)
class Tried:
    """What a threshold for each layer gives."""

    thresholds: tuple[float, ...]
    layers: float
    """per token"""
    right: float
    """share of tokens"""


@final
@dataclass(frozen=True)
class Searched:
    """What the grid gives: the best combination, and those of one threshold."""

    right: float
    """share of tokens after all layers"""
    alike: tuple[Tried, ...]
    best: Tried | None
    """None where no combination is right enough"""
    combinations: int


def search_thresholds(
    model: Model,
    classifier: Confident,
    tokens: Tokens,
    *,
    grid: Sequence[float],
    delta: float,
    seed: int = 0,
    show: Show = progress,
) -> Searched:
    """Reads some windows of a text and tries the grid on them. ValueError for δ outside (0, 1) and for a bad grid."""
    require_generates(model, "leave layers out")
    require_tokens(tokens, model.config.vocab)
    require_seed(seed)
    if not 0 < delta < 1:
        raise ValueError(f"delta lies between 0 and 1, and is {delta}")
    if not grid or not all(0 <= value <= 1 for value in grid) or len(set(grid)) != len(grid):
        raise ValueError("the grid has thresholds from 0 to 1, each once: give at least one")
    context = min(model.config.context, model.traits.longest or model.config.context)
    require_logits(model, ROWS, context)
    windows, count = Windows(tokens, context, seed), max(1, READ // (ROWS * context))
    sure, right = [], []
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), show("reading", count * ROWS, "windows") as advance:
            for step in range(count):
                read = seen(model, windows.batch(step, ROWS).to(model.device))
                sure.append(torch.sigmoid(classifier.logits(read.streams)).flatten(0, 1).cpu())
                right.append(read.right.flatten(0, 1).cpu())
                advance(ROWS)
    finally:
        model.train(training)
    c, hits = torch.cat(sure), torch.cat(right)
    chosen = combinations(len(grid), classifier.config.depth - 1, seed)
    thresholds = torch.tensor(grid, dtype=c.dtype)[chosen]
    layers, shares = tried(c, hits, thresholds)
    whole = float(hits[:, -1].double().mean())
    rows = [
        Tried(tuple(grid[number] for number in numbers), float(depth), float(share))
        for numbers, depth, share in zip(chosen.tolist(), layers, shares, strict=True)
    ]
    able = [row for row in rows if row.right >= whole - delta]
    alike = tuple(row for row in rows if len(set(row.thresholds)) == 1)
    best = min(able, key=lambda row: (row.layers, -row.right), default=None)
    return Searched(whole, tuple(dict.fromkeys(alike)), best, len(rows))


def combinations(values: int, layers: int, seed: int) -> Tensor:
    """Numbers (N, layers) below `values`: all combinations, or `MOST` of them, those of equal numbers first."""
    if values**layers <= MOST:
        return torch.tensor(list(product(range(values), repeat=layers)))
    alike = np.repeat(np.arange(values)[:MOST, None], layers, 1)
    drawn = Draws(f"thresholds {seed}", 0, MOST - len(alike)).below(values, layers)
    return torch.from_numpy(np.concatenate([alike, drawn]))


def tried(
    c: Float[Tensor, "N L-1"], right: Bool[Tensor, "N L"], thresholds: Float[Tensor, "M L-1"]
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Layers per token and share of right tokens of N tokens, at each of M combinations of thresholds."""
    layers, shares = [], []
    for some in thresholds.split(256):
        going = torch.ones(len(some), len(c), dtype=torch.bool)
        depth, hits = torch.zeros(len(some)), torch.zeros(len(some))
        for layer, (sure, hit) in enumerate(zip(c.unbind(1), right.unbind(1)[:-1], strict=True)):
            depth += going.sum(1)
            ends = going & (sure >= some[:, layer : layer + 1])
            hits += (ends & hit).sum(1)
            going = going & ~ends
        layers.append(depth + going.sum(1))
        shares.append(hits + (going & right[:, -1]).sum(1))
    return torch.cat(layers).double() / len(c), torch.cat(shares).double() / len(c)
