"""The sizes of a model that may change, and the size at which its parameters or operations are nearest to an aim.

A depth moves by whole patterns of mixers, so that what repeats stays whole; a dim only takes values that the mixers can
be built with. Both quantities grow with each size, so the nearest size lies where they cross the aim.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, inf
from typing import Literal, TypeAlias

from seqloom.core.feed_forward import FeedForwardConfig
from seqloom.core.layered import LayeredConfig
from seqloom.core.model_config import weightless
from seqloom.core.without_values import without_values

By: TypeAlias = Literal["ffn", "dim", "depth"]
Counted: TypeAlias = Literal["params", "mul"]


def quantity(config: LayeredConfig, equal: Counted) -> int:
    """Trainable numbers, or multiplications of a row of `context` tokens, of the layers and the norms around them.

    Priced on the meta device: no weight is allocated or drawn. ValueError if a mixer cannot be built at these sizes.
    """
    with without_values():
        for mixer in config.pattern:  # raises before a model is built, since a search tries thousands of sizes
            mixer.build(config.dim, config.context, config.causal)
    return int(getattr(weightless(config).inner_cost(config.context), equal))


def nearest(config: LayeredConfig, equal: Counted, by: By, aim: int) -> int:
    """The size `by` at which the quantity is nearest to `aim`; of two that are equally near, the smaller."""
    current = size_of(config, by)
    # at the size `enough` the two matrices of the ffn alone reach the aim; `sizes` ends at twice that
    rows = config.context if equal == "mul" else 1
    enough = aim * current // (2 * config.dim * config.ffn_width * config.depth * rows)
    step = allowed_sizes(config, by).step
    sizes = range(step + current % step, 2 * (max(current, enough) + 1) + step, step)

    @cache
    def price_size(size: int) -> int | None:
        try:
            return quantity(at(config, by, size), equal)
        except ValueError:  # a mixer that asks its heads or groups to divide dim
            return None

    def first_buildable(index: int) -> tuple[float, int]:
        """(quantity, size) of the first size from an index on that can be built; both grow with the index."""
        for size in sizes[index:]:
            price = price_size(size)
            if price is not None:
                return price, size
        return inf, sizes[-1]

    index = _crossing(lambda index: first_buildable(index)[0], len(sizes), aim)
    candidates = [first_buildable(index)]
    if index:
        candidates.append(first_buildable(index - 1))
    return min(candidates, key=lambda candidate: (abs(candidate[0] - aim), candidate[1]))[1]


def _crossing(value: Callable[[int], float], count: int, aim: float) -> int:
    """The first of `count` indices whose value is no less than `aim`, of values that grow; the last where none is.

    The interval that holds it is divided by linear interpolation, which is exact for `ffn`. Where that did not halve
    the interval, the next division is in the middle.
    """
    low, high = -1, count - 1
    interpolate = False
    while high - low > 1:
        width = high - low
        middle = (low + high) // 2
        if low < 0:
            middle = 0
        elif interpolate and value(high) < inf:
            rise = value(high) - value(low)
            share = (aim - value(low)) / rise if rise > 0 else 1.0
            middle = min(max(low + ceil(share * width), low + 1), high - 1)
        if value(middle) >= aim:
            high = middle
        else:
            low = middle
        interpolate = not interpolate or 2 * (high - low) <= width
    return high


def allowed_sizes(config: LayeredConfig, by: By) -> range:
    """The sizes that `by` may take at all; `buildable` says which of them the mixers take."""
    current = size_of(config, by)
    step = config.period if by == "depth" else 1
    bounds = (FeedForwardConfig.model_fields["width"] if by == "ffn" else type(config).model_fields[by]).metadata
    limit: int = next(bound.le for bound in bounds if hasattr(bound, "le"))
    return range(step + current % step, limit + 1, step)


def buildable(config: LayeredConfig, by: By, size: int) -> int | None:
    """The first allowed size from `size` on, and below its double, that the mixers can be built with, or None."""
    sizes = allowed_sizes(config, by)
    first = max(0, -(-(size - sizes.start) // sizes.step))
    for candidate in sizes[first : first + max(size, 64)]:
        try:
            quantity(at(config, by, candidate), "params")
        except ValueError:
            continue
        return candidate
    return None


def at(config: LayeredConfig, by: By, size: int) -> LayeredConfig:
    """The same model with another size; itself where nothing changes."""
    if size == size_of(config, by):
        return config
    return config.with_ffn_width(size) if by == "ffn" else config.model_copy(update={by: size})


def size_of(config: LayeredConfig, by: By) -> int:
    """The size `by` of a model."""
    size: int = config.ffn_width if by == "ffn" else getattr(config, by)
    return size


def has_ffn(config: LayeredConfig) -> bool:
    """Whether a feed-forward network, or another second sublayer, follows some mixer."""
    return not all(ffn.is_none for ffn in config.ffn_pattern)


def title(config: LayeredConfig) -> str:
    """The name of a model: that of its mixers."""
    return " + ".join(dict.fromkeys(mixer.kind for mixer in config.pattern))
