"""Context trees over a text: all of them, weighted, or one that is pruned; with a binary decomposition of the alphabet.

    P_w(s) = P_e(a_s, b_s)  at |s| = D,       ½ P_e(a_s, b_s) + ½ Π_σ P_w(σ s)  above            σ of all tokens
    P_e(a, b) = Γ(a + ½) Γ(b + ½) / (π Γ(a + b + 1)),            p_e(1) = (b + ½) / (a + b + 1)
    p(1 | …σ s) = λ_s p_e(1 | s) + (1 - λ_s) p(1 | …τ σ s),      λ_s = ½ P_e / P_w(s), 1 at |s| = D

A token is K = ⌈log2 W⌉ binary decisions, those of its id from the highest bit on; each of the W - 1 nodes of this tree
has a context tree of its own, whose contexts s are the last |s| ≤ D tokens. a_s and b_s count the zeros and ones that
followed s at the node. Below a context that the text does not have, p is ½.

    Δ_{σs} = Σ_w n(σ s w) ln [ n(w | σ s) / n(w | s) ] ≥ cutoff, or a longer context is kept: σ s is kept      pruning

Then each decision is p_e(1 | s) of the longest kept context that has seen the node.

Source: Willems, Shtarkov and Tjalkens, The Context-Tree Weighting Method, IEEE Trans. IT 41 (1995), sections II and V,
for a binary text; Tjalkens, Volf and Willems (1997) decompose an alphabet so. Bühlmann and Wyner, Variable Length
Markov Chains, Ann. Statist. 27 (1999), section 3.1, for Δ. Differs from it: a decision that was never seen in a kept
context is that of the next shorter one, where the paper's estimate is 0.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import gammaln

from seqloom.models.ngram.grams import Grams, grams


@final
@dataclass(frozen=True)
class Depth:
    """What the contexts of one length have seen. A key is context · 2^K + node, where 1 is the first node."""

    keys: Int64[np.ndarray, " nodes"]
    ones: Float64[np.ndarray, " nodes"]
    """p_e(1)"""
    weights: Float64[np.ndarray, " nodes"]
    """λ_s; 1 in a tree that is pruned"""


@final
@dataclass(frozen=True)
class ContextTree:
    """The trees of a text, by the length of their contexts, 0 … D."""

    contexts: list[Int64[np.ndarray, " _"]]
    """the sorted keys of the contexts of 1 … D tokens, as of `grams`"""
    depths: list[Depth]
    log_evidence: float
    """ln P_w of the root: the log-probability of the text, as a weighted mean over all trees"""


def decisions(vocab: int) -> int:
    """K, the binary decisions of a token."""
    return max(1, (vocab - 1).bit_length())


def context_tree(ids: Int64[np.ndarray, " T"], order: int, vocab: int, cutoff: float = 0.0) -> ContextTree:
    """Counts a text once, with contexts of up to D = `order` - 1 tokens.

    Raises ValueError as `grams` does, and for a cutoff that is not a finite number from 0.
    """
    if isinstance(cutoff, bool) or not isinstance(cutoff, int | float) or not 0 <= cutoff < math.inf:
        raise ValueError(f"cutoff must be a number of nats from 0, got {cutoff!r}")
    counted = grams(ids, order, vocab)
    retained = _retained(counted, vocab, cutoff) if cutoff else None
    K = decisions(vocab)
    depths: list[Depth] = []
    below: np.ndarray | None = None
    evidence = 0.0
    tables = [_counts(counted, depth, vocab, retained) for depth in range(order)]
    for depth, (keys, zeros, ones) in reversed(list(enumerate(tables))):
        log_e = gammaln(zeros + 0.5) + gammaln(ones + 0.5) - math.log(math.pi) - gammaln(zeros + ones + 1)
        log_w = log_e if below is None else np.logaddexp(log_e, below) - math.log(2)
        weights = np.ones(len(keys)) if below is None or retained else np.exp(log_e - math.log(2) - log_w)
        depths.insert(0, Depth(keys, (ones + 0.5) / (zeros + ones + 1), weights))
        if depth:
            shorter = _shorter(counted, depth, keys >> K) << K | keys & (1 << K) - 1
            above = tables[depth - 1][0]
            below = np.bincount(np.searchsorted(above, shorter), log_w, len(above))
        evidence = float(log_w.sum())
    return ContextTree(counted.keys[: order - 1], depths, evidence)


def _counts(
    counted: Grams, depth: int, vocab: int, retained: list[Bool[np.ndarray, " _"]] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys of the nodes that the contexts of a length have seen, and how many zeros and ones followed there."""
    K = decisions(vocab)
    contexts, tokens = _followed(counted, depth, vocab)
    counts = counted.counts[depth].astype(np.float64)
    real = tokens < vocab  # not the symbol of a beginning
    if retained is not None and depth:
        real &= retained[depth][contexts]
    contexts, tokens, counts = contexts[real], tokens[real], counts[real]
    keys, bits, weights = [], [], []
    for level in range(K):
        nodes = 1 << level | tokens >> (K - level)
        least_id_with_one = ((nodes << 1 | 1) << (K - level - 1)) - (1 << K)
        free = least_id_with_one < vocab  # else every id below this node has a 0 as its next bit, and none is decided
        keys.append((contexts << K | nodes)[free])
        bits.append((tokens >> (K - 1 - level) & 1)[free])
        weights.append(counts[free])
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    bit, weight = np.concatenate(bits), np.concatenate(weights)
    ones = np.bincount(inverse.reshape(-1), weight * bit, len(unique))
    return unique, np.bincount(inverse.reshape(-1), weight, len(unique)) - ones, ones


def _followed(counted: Grams, depth: int, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """The context of `depth` tokens and the token after it of each n-gram of depth + 1 tokens."""
    contexts, tokens = np.divmod(counted.keys[depth], vocab + 1)
    return contexts, tokens


def _shorter(counted: Grams, depth: int, contexts: Int64[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
    """The contexts without their first tokens, of `depth` - 1 tokens."""
    return counted.suffixes[depth - 2][contexts] if depth > 1 else np.zeros_like(contexts)


def _retained(counted: Grams, vocab: int, cutoff: float) -> list[Bool[np.ndarray, " _"]]:
    """Whether each context of 0 … D tokens is retained."""
    order = len(counted.keys)
    retained = [np.ones(1, bool), *(np.zeros(len(counted.keys[depth - 1]), bool) for depth in range(1, order))]
    for depth in range(order - 1, 0, -1):
        contexts, tokens = _followed(counted, depth, vocab)
        followed = tokens < vocab
        contexts, counts = contexts[followed], counted.counts[depth][followed]
        shortened = counted.suffixes[depth - 1][followed]  # the same n-gram without its first token
        shorter, _ = _followed(counted, depth - 1, vocab)
        counts_before = counted.counts[depth - 1] * (counted.keys[depth - 1] % (vocab + 1) < vocab)
        totals = np.bincount(contexts, counts, len(retained[depth]))
        totals_before = np.bincount(shorter, counts_before, len(retained[depth - 1]))
        gained = counts * np.log(
            counts / totals[contexts] * totals_before[shorter[shortened]] / counts_before[shortened]
        )
        retained[depth] |= np.bincount(contexts, gained, len(retained[depth])) >= cutoff
        retained[depth - 1][_shorter(counted, depth, np.flatnonzero(retained[depth]))] = True
    return retained
