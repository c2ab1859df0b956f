"""ListOps: nested operations on lists of digits; the label is the result.

    [MAX 2 9 [MIN 4 7] 0]   → 9          MIN, MAX, MED (the lower middle one) and SM (the sum modulo 10)

A list has 2 to LENGTH entries, 5 by default, and nests at most DEPTH deep, 4 by default; an entry is a list with a
probability of 1/4. List number i depends on i, the seed, the depth and the length alone.

Source: Nangia and Bowman, ListOps, arXiv:1804.06028; Tay et al., Long Range Arena, arXiv:2011.04006, section 2.2.1.
What differs: shorter lists, and MED of an even number of entries, which there is rounded down too.
"""

import hashlib
from collections.abc import Callable, Iterator

from seqloom.core.seeds import require_seed

COUNT, MOST = 20000, 10**6
DEPTH, LENGTH = 4, 5
"""levels of lists and the most entries of one, unless the name has others"""
DEEPEST, LONGEST = 8, 8
OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda entries: sorted(entries)[(len(entries) - 1) // 2],
    "SM": lambda entries: sum(entries) % 10,
}


def read_lists(source: str) -> list[tuple[str, tuple[str]]]:
    """(label, (text,)) of each list of a name `listops[:COUNT[:SEED[:DEPTH[:LENGTH]]]]`.

    ValueError, in one line, for a wrong name.
    """
    name, *words = source.split(":")
    if name != "listops" or len(words) > 4 or not all(w.isascii() and w.isdigit() and len(w) < 20 for w in words):
        raise ValueError(f"{source[:100]}: say listops[:COUNT[:SEED[:DEPTH[:LENGTH]]]], with whole numbers")
    defaults = (COUNT, 0, DEPTH, LENGTH)
    count, seed, depth, length = (*map(int, words), *defaults[len(words) :])
    require_seed(seed)
    if not 2 <= count <= MOST:
        raise ValueError(f"{source}: from 2 to {MOST:,} lists are drawn, not {count:,}")
    if not 1 <= depth <= DEEPEST:
        raise ValueError(f"{source}: lists nest from 1 to {DEEPEST} deep, not {depth:,}")
    if not 2 <= length <= LONGEST:
        raise ValueError(f"{source}: a list has at most 2 to {LONGEST} entries, not {length:,}")
    drawn = (draw_list(_numbers(f"listops {seed} {number}"), depth, length) for number in range(count))
    return [(str(result), (text,)) for text, result in drawn]


def draw_list(numbers: Iterator[int], depth: int = DEPTH, length: int = LENGTH) -> tuple[str, int]:
    """A list of at most `depth` levels and `length` entries in each as text, and its result."""
    operation = [*OPERATIONS][next(numbers) % len(OPERATIONS)]
    words, values = [operation], []
    for _ in range(2 + next(numbers) % (length - 1)):
        if depth > 1 and next(numbers) % 4 == 0:
            word, value = draw_list(numbers, depth - 1, length)
        else:
            value = next(numbers) % 10
            word = str(value)
        words.append(word)
        values.append(value)
    return f"[{' '.join(words)}]", OPERATIONS[operation](values)


def _numbers(key: str) -> Iterator[int]:
    """Random whole numbers below 2^64, by SHA-256."""
    turn = 0
    while True:
        yield int.from_bytes(hashlib.sha256(f"{key} {turn}".encode()).digest()[:8], "little")
        turn += 1
