"""Folds: authors are dealt once into groups of about equal size, each of which is the test text of some runs.

    order       authors by the size of their texts, largest first; equal sizes by sha256(name)
    deal        each author goes to the fold that has the fewest characters so far; of equal folds to the first

The deal depends on the texts and their authors alone, so that fold k is the same for every model and every seed.

Source: the greedy rule of Graham, Bounds on multiprocessing timing anomalies, SIAM Journal on Applied Mathematics 17,
1969. Nothing differs.
"""

import hashlib
from collections.abc import Mapping


def deal(characters: Mapping[str, int], folds: int, source: str) -> dict[str, int]:
    """The fold, from 0, of each author. ValueError where there are fewer authors than folds."""
    if len(characters) < folds:
        raise ValueError(
            f"{source}: {len(characters)} authors, validation aside, cannot be dealt into {folds} folds: "
            "choose fewer data.folds"
        )
    order = sorted(characters, key=lambda author: (-characters[author], hashlib.sha256(author.encode()).digest()))
    sizes = [0] * folds
    fold_of = {}
    for author in order:
        fold = sizes.index(min(sizes))
        fold_of[author] = fold
        sizes[fold] += characters[author]
    return fold_of
