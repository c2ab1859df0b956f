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
    from scipy.special import gammaln  # imported here, so that all other models train without scipy

    if isinstance(cutoff, bool) or not isinstance(cutoff, int | float) or not 0 <= cutoff < math.inf:
        raise ValueError(f"cutoff must be a number of nats from 0, got {cutoff!r}")
    table = grams(ids, order, vocab)
    retained = _retained_contexts(table, vocab, cutoff) if cutoff else None
    K = decisions(vocab)
    depths: list[Depth] = []
    log_product: np.ndarray | None = None  # Σ_σ ln P_w(σ s) of the contexts s of this depth; None at depth D
    evidence = 0.0
    counts = [_counts(table, depth, vocab, retained) for depth in range(order)]
    for depth, (keys, zeros, ones) in reversed(list(enumerate(counts))):
        log_e = gammaln(zeros + 0.5) + gammaln(ones + 0.5) - math.log(math.pi) - gammaln(zeros + ones + 1)
        log_w = log_e if log_product is None else np.logaddexp(log_e, log_product) - math.log(2)
        weights = np.ones(len(keys))
        if log_product is not None and not retained:
            weights = np.exp(log_e - math.log(2) - log_w)
        depths.insert(0, Depth(keys, (ones + 0.5) / (zeros + ones + 1), weights))
        if depth:
            node = keys & (1 << K) - 1
            shorter_keys = _shorter(table, depth, keys >> K) << K | node
            keys_above = counts[depth - 1][0]
            log_product = np.bincount(np.searchsorted(keys_above, shorter_keys), log_w, len(keys_above))
        evidence = float(log_w.sum())
    return ContextTree(table.keys[: order - 1], depths, evidence)


def _counts(
    table: Grams, depth: int, vocab: int, retained: list[Bool[np.ndarray, " _"]] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys of the nodes that the contexts of a length have seen, and how many zeros and ones followed there."""
    K = decisions(vocab)
    contexts, tokens = _context_and_token(table, depth, vocab)
    counts = table.counts[depth].astype(np.float64)
    is_counted = tokens < vocab  # not the begin symbol
    if retained is not None and depth:
        is_counted &= retained[depth][contexts]
    contexts = contexts[is_counted]
    tokens = tokens[is_counted]
    counts = counts[is_counted]
    keys, bits, weights = [], [], []
    for level in range(K):
        nodes = 1 << level | tokens >> (K - level)
        least_id_with_one = ((nodes << 1 | 1) << (K - level - 1)) - (1 << K)
        decides = least_id_with_one < vocab  # otherwise the next bit of all ids below this node is 0
        keys.append((contexts << K | nodes)[decides])
        bits.append((tokens >> (K - 1 - level) & 1)[decides])
        weights.append(counts[decides])
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    index = inverse.reshape(-1)
    bit = np.concatenate(bits)
    weight = np.concatenate(weights)
    ones = np.bincount(index, weight * bit, len(unique))
    zeros = np.bincount(index, weight, len(unique)) - ones
    return unique, zeros, ones


def _context_and_token(table: Grams, depth: int, vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """The context of `depth` tokens and the token after it of each n-gram of depth + 1 tokens."""
    contexts, tokens = np.divmod(table.keys[depth], vocab + 1)
    return contexts, tokens


def _shorter(table: Grams, depth: int, contexts: Int64[np.ndarray, " N"]) -> Int64[np.ndarray, " N"]:
    """The contexts without their first tokens, of `depth` - 1 tokens."""
    return table.suffixes[depth - 2][contexts] if depth > 1 else np.zeros_like(contexts)


def _retained_contexts(table: Grams, vocab: int, cutoff: float) -> list[Bool[np.ndarray, " _"]]:
    """Whether each context of 0 … D tokens is retained."""
    order = len(table.keys)
    retained = [np.ones(1, bool)]
    retained += [np.zeros(len(table.keys[depth - 1]), bool) for depth in range(1, order)]
    for depth in range(order - 1, 0, -1):
        contexts, tokens = _context_and_token(table, depth, vocab)
        is_token = tokens < vocab  # not the begin symbol
        contexts = contexts[is_token]
        counts = table.counts[depth][is_token]  # n(σ s w)
        suffixes = table.suffixes[depth - 1][is_token]  # the entry of s w
        shorter_contexts, shorter_tokens = _context_and_token(table, depth - 1, vocab)
        shorter_counts = table.counts[depth - 1] * (shorter_tokens < vocab)  # n(s w)
        totals = np.bincount(contexts, counts, len(retained[depth]))
        shorter_totals = np.bincount(shorter_contexts, shorter_counts, len(retained[depth - 1]))
        gains = counts * np.log(
            counts / totals[contexts] * shorter_totals[shorter_contexts[suffixes]] / shorter_counts[suffixes]
        )
        retained[depth] |= np.bincount(contexts, gains, len(retained[depth])) >= cutoff
        retained[depth - 1][_shorter(table, depth, np.flatnonzero(retained[depth]))] = True
    return retained
