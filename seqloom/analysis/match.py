"""Fairness as a function: one size of a model is changed until the model is as large, or as dear, as another.

    params   trainable numbers              of all layers and the last norm: the token and position tables and the
    mul      multiplications of one row     head (the last linear layer and its softmax) are left aside

The sizes that may move are `ffn`, `dim` and `depth`, one at a time. A depth moves by whole patterns of mixers, so that
what repeats stays whole; a dim only takes values that the mixers can be built with. Both quantities grow with each
size, so the nearest size is found by doubling and halving, and no other is nearer.

Source: ours. The Extractor paper compares models of equal sizes and unequal price.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Literal, TypeAlias, final, get_args

import torch

from seqloom.analysis.cost import block_cost, norm_cost
from seqloom.core.mixer import MixerConfig
from seqloom.core.table import written
from seqloom.models.block import Block
from seqloom.models.decoder import DecoderConfig

Equal: TypeAlias = Literal["params", "mul"]
By: TypeAlias = Literal["ffn", "dim", "depth"]
WORDS = {"params": "parameters", "mul": "multiplications"}


@final
@dataclass(frozen=True)
class Match:
    """A model changed in one size to be as large, or as dear, as another; as text, one line about what moved."""

    config: DecoderConfig
    """the changed model"""
    to: DecoderConfig
    """the other, as it was given"""
    equal: Equal
    by: By
    before: int
    """the size `by` that was given"""
    after: int
    """the size `by` of `config`"""
    quantity: int
    """the quantity of `config`"""
    aim: int
    """the quantity of `to`"""

    @property
    def difference(self) -> float:
        """How far `config` lies above `to`, as a share of the latter; negative below."""
        return (self.quantity - self.aim) / self.aim

    @property
    def close(self) -> bool:
        """Whether both quantities are within 1% of the other model's."""
        return 100 * abs(self.quantity - self.aim) <= self.aim

    def __str__(self) -> str:
        moved = f"{self.before:,} → {self.after:,}" if self.before != self.after else f"{self.after:,} stays"
        return f"{_name(self.config)}: {self.by} {moved}, {self.compared}, embeddings and head aside"

    @property
    def compared(self) -> str:
        """Both quantities and their difference, in words."""
        what, other = f"{self.quantity:,} {WORDS[self.equal]}", f"the {self.aim:,} of {_name(self.to)}"
        if self.quantity == self.aim:
            return f"{what}, exactly {other}"
        return (
            f"{what}, {written(100 * abs(self.difference))}% {'above' if self.quantity > self.aim else 'below'} {other}"
        )


def match(config: DecoderConfig, to: DecoderConfig, *, equal: Equal = "params", by: By = "ffn") -> Match:
    """Changes only `by` of `config` until its quantity is as near to that of `to` as it can be.

    Of two sizes that are as near the smaller is taken. ValueError if that is not within 1%, with how near it is and
    which other size could do it; if a model cannot be built; and if `mul` is asked for between different contexts.
    """
    for name, value, known in (("equal", equal, get_args(Equal)), ("by", by, get_args(By))):
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(known)}, not {value!r}")
    if equal == "mul" and config.context != to.context:
        raise ValueError(
            f"multiplications of rows of {config.context:,} and of {to.context:,} tokens do not compare: "
            "give both models the same context, or match params"
        )
    aim = quantity(to, equal)
    quantity(config, equal)  # what cannot be built says why
    found = _nearest(config, to, equal, by, aim)
    if found.close:
        return found
    others: list[By] = [other for other in get_args(By) if other != by]
    able = [other for other in others if _nearest(config, to, equal, other, aim).close]
    way = f"match by {' or '.join(able)} instead" if able else f"{' and '.join(others)} cannot either"
    raise ValueError(
        f"no {by} brings {_name(config)} within 1% of {_name(to)}: "
        f"the nearest, {by} {found.after:,}, has {found.compared}; {way}"
    )


def quantity(config: DecoderConfig, equal: Equal) -> int:
    """Trainable numbers, or multiplications of a row of `context` tokens, of the layers and the last norm.

    Priced on the meta device: nothing is held or drawn. ValueError if a mixer cannot be built at these sizes.
    """
    rows, pattern = config.context, _pattern(config)
    with torch.device("meta"):
        blocks = [Block(mixer.build(config.dim, rows), config.ffn, config.dropout) for mixer in pattern]
    whole, rest = divmod(config.depth, len(pattern))
    layers = sum(
        (whole + (place < rest)) * int(getattr(block_cost(block, rows, "sequence"), equal))
        for place, block in enumerate(blocks)
    )
    return layers + int(getattr(norm_cost(rows, config.dim), equal))


def _nearest(config: DecoderConfig, to: DecoderConfig, equal: Equal, by: By, aim: int) -> Match:
    before: int = getattr(config, by)
    step = len(_pattern(config)) if by == "depth" else 1
    # the two matrices of the feed-forward networks alone reach the aim here, and its double at the end of `sizes`
    enough = aim * before // (2 * config.dim * config.ffn * config.depth * (config.context if equal == "mul" else 1))
    sizes = range(step + before % step, 2 * (max(before, enough) + 1) + step, step)

    @cache
    def priced(size: int) -> int | None:
        try:
            return quantity(config.model_copy(update={by: size}), equal)
        except ValueError:  # a mixer that asks its heads or groups to divide dim
            return None

    def upward(place: int) -> tuple[float, int]:
        """The first size from a place on that can be built, after its quantity: this too grows with the place."""
        return next(((found, size) for size in sizes[place:] if (found := priced(size)) is not None), (inf, sizes[-1]))

    end = 1
    while upward(end - 1)[0] < aim:
        end = min(2 * end, len(sizes))
    place = bisect_left(range(end), True, key=lambda place: upward(place)[0] >= aim)
    around = [upward(place), *([upward(place - 1)] if place else [])]
    after = min(around, key=lambda found: (abs(found[0] - aim), found[1]))[1]
    changed = config if after == before else config.model_copy(update={by: after})
    return Match(changed, to, equal, by, before, after, quantity(changed, equal), aim)


def _pattern(config: DecoderConfig) -> tuple[MixerConfig, ...]:
    return config.mixer if isinstance(config.mixer, tuple) else (config.mixer,)


def _name(config: DecoderConfig) -> str:
    return " + ".join(dict.fromkeys(mixer.kind for mixer in _pattern(config)))
