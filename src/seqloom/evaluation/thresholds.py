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
from seqloom.core.rest import Rest
from seqloom.core.seeds import require_seed
from seqloom.data.probes.draws import Draws
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.depth.classifier import ConfidenceClassifier, layer_predictions
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
    """the combinations in which all layers have one threshold"""
    best: Tried | None
    """None where no combination is right enough"""
    combinations: int


def search_thresholds(
    model: Model,
    classifier: ConfidenceClassifier,
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
    windows = Windows(tokens, context, seed)
    count = max(1, READ // (ROWS * context))
    confidences, correct = [], []
    with Rest(model), show("reading", count * ROWS, "windows") as advance:
        for step in range(count):
            read = layer_predictions(model, windows.batch(step, ROWS).to(model.device))
            confidences.append(torch.sigmoid(classifier.logits(read.streams)).flatten(0, 1).cpu())
            correct.append(read.right.flatten(0, 1).cpu())
            advance(ROWS)
    c = torch.cat(confidences)  # (N, L - 1)
    right = torch.cat(correct)  # (N, L)
    indices = combinations(len(grid), classifier.config.depth - 1, seed)  # into the grid (M, L - 1)
    thresholds = torch.tensor(grid, dtype=c.dtype)[indices]
    layers, shares = try_thresholds(c, right, thresholds)
    right_at_last = float(right[:, -1].double().mean())
    results = [
        Tried(tuple(grid[index] for index in row), float(depth), float(share))
        for row, depth, share in zip(indices.tolist(), layers, shares, strict=True)
    ]
    right_enough = [result for result in results if result.right >= right_at_last - delta]
    alike = tuple(result for result in results if len(set(result.thresholds)) == 1)
    best = min(right_enough, key=lambda result: (result.layers, -result.right), default=None)
    return Searched(right_at_last, tuple(dict.fromkeys(alike)), best, len(results))


def combinations(values: int, layers: int, seed: int) -> Tensor:
    """Indices (M, layers) below `values`: all combinations, or `MOST` of them, those of equal indices first."""
    if values**layers <= MOST:
        return torch.tensor(list(product(range(values), repeat=layers)))
    alike = np.repeat(np.arange(values)[:MOST, None], layers, 1)
    drawn = Draws(f"thresholds {seed}", 0, MOST - len(alike)).below(values, layers)
    return torch.from_numpy(np.concatenate([alike, drawn]))


def try_thresholds(
    c: Float[Tensor, "N L-1"], right: Bool[Tensor, "N L"], thresholds: Float[Tensor, "M L-1"]
) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Layers per token and share of right tokens of N tokens, at each of M combinations of thresholds."""
    layers, shares = [], []
    for chunk in thresholds.split(256):
        running = torch.ones(len(chunk), len(c), dtype=torch.bool)  # the tokens that have not left
        depth = torch.zeros(len(chunk))
        hits = torch.zeros(len(chunk))
        for layer, (confidence, hit) in enumerate(zip(c.unbind(1), right.unbind(1)[:-1], strict=True)):
            depth += running.sum(1)
            leaves = running & (confidence >= chunk[:, layer : layer + 1])
            hits += (leaves & hit).sum(1)
            running = running & ~leaves
        layers.append(depth + running.sum(1))
        shares.append(hits + (running & right[:, -1]).sum(1))
    return torch.cat(layers).double() / len(c), torch.cat(shares).double() / len(c)
