"""Sparse attention patterns: which keys a query attends to.

    pattern(i, j)       True where the query at time i attends to the key at time j; elementwise, any broadcast shapes
    pattern.tiles(T)    the tiles of the matrix of scores of T tokens that may have a visible pair
    pattern.keys(t)     the times of the keys that the last of t + 1 tokens attends to, in order

    Neighbors      `local`, `around`, `segment` (fixed, first part), `blocks_before` (Image Transformer, 1-D)
    Dilated        a pattern over every d-th token: i ≡ j (mod d), pattern(i // d, j // d); `strided_parts`, second part
    Summary        the last c tokens of each segment of l: j mod l ≥ l - c (fixed, second part)
    Columns        a few tokens that all queries attend to
    Raster         Image Transformer, 2-D: rectangles of a picture, each with a halo above, left and right
    Permuted       blockwise: block r of the text attends to block π(r)
    RandomBlocks   Big Bird: a window, the ends and random blocks
    Union          patterns that share no pair; `merge_parts` of the two parts of `strided_parts` or `fixed_parts`
    Within         a pattern within the latest tokens

Source: Child et al., arXiv:1904.10509; Parmar et al., arXiv:1802.05751; Beltagy et al., arXiv:2004.05150; Qiu et al.,
arXiv:1911.02972; Zaheer et al., arXiv:2007.14062. What differs: Child et al. print A⁽²⁾ without the condition j ≤ i,
which their text requires. Parmar et al. generate a picture rectangle by rectangle; here pixels are in row-major order,
to which j ≤ i refers. Big Bird has no causal form; its pattern with j ≤ i is ours.
"""

from seqloom.ops.attention.patterns.blocks import Permuted, Raster
from seqloom.ops.attention.patterns.columns import Columns, Summary
from seqloom.ops.attention.patterns.compound import Union, Within, fixed_parts, merge_parts, strided_parts
from seqloom.ops.attention.patterns.neighbors import Dilated, Neighbors, around, blocks_before, local, segment
from seqloom.ops.attention.patterns.pattern import Pattern
from seqloom.ops.attention.patterns.random_blocks import RandomBlocks

__all__ = [
    "Columns",
    "Dilated",
    "Neighbors",
    "Pattern",
    "Permuted",
    "RandomBlocks",
    "Raster",
    "Summary",
    "Union",
    "Within",
    "around",
    "blocks_before",
    "fixed_parts",
    "local",
    "merge_parts",
    "segment",
    "strided_parts",
]
