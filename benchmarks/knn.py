"""Time of kNN-LM: scores with a store of 200,000 keys next to scores without, and exact search next to faiss.

python benchmarks/knn.py

The model is paper/small's with 4 heads, untrained, over 5,000 tokens: times do not depend on its weights. The store is
of 200,000 tokens drawn at random, searched exactly and by 1,024 inverted lists, of which 8 are read, k = 64; `recall`
is the share of the exact neighbors that the lists give. Then 1 M keys of 128 numbers and 64 queries, k = 64: our exact
search next to faiss' IndexFlatL2.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from harness import append, compare, gate

import seqloom
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.retrieval.building import build
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.search import Exact, Faiss, faiss, search_of
from seqloom.retrieval.store import Mix

KEYS, HELD, VOCAB, K, LISTS = 200_000, 8192, 5000, 64, 1024


def text(size, seed):
    """One document of tokens drawn at random."""
    ids = np.append(np.random.default_rng(seed).integers(1, VOCAB, size - 1), 0).astype("<u2")
    return Tokens(ids, np.array([0]), np.array([size]))


def scored(folder):
    """Rows of scores with each search, next to those of the model alone."""
    torch.manual_seed(0)
    model = seqloom.decoder("attention", heads=4, vocab=VOCAB, dim=128, depth=2, context=128, ffn=512).eval()
    store = build(model, text(KEYS, 0), folder, source="random", lists=LISTS)
    held = text(HELD, 1)

    def mixed(search):
        def run():
            with Neighbors(model, store, Mix(k=K), search) as own:
                score(model, held, neighbors=own)

        return run

    queries = store.keys[torch.randperm(KEYS, generator=torch.Generator().manual_seed(2))[:200]]
    by_lists, by_all = (search_of(store, kind).nearest(queries, K)[1] for kind in ("lists", "exact"))
    recall = sum(len(set(one) & set(other)) for one, other in zip(by_lists.tolist(), by_all.tolist(), strict=True))
    recall /= by_all.numel()
    runs = {"plain": lambda: score(model, held), "lists": mixed("lists"), "exact": mixed("exact")}
    return {
        "keys": KEYS,
        "tokens": HELD,
        "k": K,
        "lists": LISTS,
        "probes": 8,
        "recall": recall,
        **compare(runs, "plain", repeats=5),
    }


def searched():
    """A row of exact search next to faiss' index."""
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(1_000_000, 128, generator=generator)
    queries = torch.randn(64, 128, generator=generator)
    index = faiss().IndexFlatL2(128)
    index.add(keys.numpy())
    ours, theirs = Exact(keys), Faiss(index)
    runs = {"torch": lambda: ours.nearest(queries, K), "faiss": lambda: theirs.nearest(queries, K)}
    return {"keys": len(keys), "dim": 128, "queries": len(queries), "k": K, **compare(runs, "faiss", repeats=5)}


def main():
    """Both rows."""
    gate("tests/retrieval")
    with tempfile.TemporaryDirectory() as folder:
        rows = [scored(Path(folder) / "store"), searched()]
    append("knn", rows)


if __name__ == "__main__":
    main()
