"""Generated pairs of a text and its translation; a pair depends on (name, seed, index) alone.

    numbers-en, numbers-de, numbers-fr    three hundred forty-five → 345            (`number_words`), 0 … 999,999
    words-en, words-de, words-fr          345 → three hundred forty-five
    dates                                 3 May 1887 | May 3, 1887 | the 3rd of May 1887 → 1887-05-03; 1800 … 2199
    sorting                               31 7 88 → 7 31 88                         3 to 8 numbers below 100
    reversing                             stone → enots                             4 to 12 letters
    arithmetic                            347+85 → 432                              +, - and *, up to three digits each
    pictures-doubling                     8 × 8 pixels → 16 × 16                    digits (`seqloom.data.pictures`)
    pictures-coloring                     8 × 8 gray pixels → 8 × 8 in color        shapes

Numbers and dates are entry i of a permutation of all of them, so that no two indices have the same number or date. The
other kinds are drawn at random, and a text may occur twice.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import final

import numpy as np

from seqloom.data.pairs.number_words import LARGEST, english, french, german
from seqloom.data.permutation import permute
from seqloom.data.pictures import draw_pictures, encode_picture

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
FIRST_DAY = date(1800, 1, 1)
DAYS = 146_097
"""days of 400 years"""
MOST_DRAWN = 2**32
"""the most pairs of a kind that is drawn at random"""
WORDS = {"en": english, "de": german, "fr": french}


@final
@dataclass(frozen=True)
class Pair:
    """A source text and its target text; `name` says where the pair is from, for messages."""

    name: str
    source: str
    target: str


@final
class Draws:
    """A stream of random integers from a key, by SHA-256: numpy's generators may change between versions."""

    def __init__(self, key: str) -> None:
        self._key, self._turn = key, 0

    def below(self, limit: int) -> int:
        """The next number of 0 … limit - 1; `limit` is far below 2^64, so that all are equally likely."""
        self._turn += 1
        digest = hashlib.sha256(f"{self._key} {self._turn}".encode()).digest()
        return int.from_bytes(digest[:8], "little") % limit


Make = Callable[[int, Draws], tuple[str, str]]
"""makes source and target from an entry of the permutation and further draws"""


@final
@dataclass(frozen=True)
class Kind:
    """A kind of generated pairs."""

    make: Make
    size: int = MOST_DRAWN
    """the number of different indices"""


def pairs(name: str, count: int, seed: int) -> Iterator[Pair]:
    """The pairs with the indices 0 … count - 1 of kind `name`. ValueError where it has fewer."""
    kind = KINDS[name]
    if count > kind.size:
        raise ValueError(f"pairs:{name} has {kind.size:,} pairs, not {count:,}: ask for fewer")
    entries = permute(np.arange(count), 0, kind.size, seed)
    for index, entry in enumerate(entries.tolist()):
        source, target = kind.make(entry, Draws(f"seqloom pairs {name} {seed} {index}"))
        yield Pair(f"pairs:{name}, pair {index}", source, target)


def _words_to_digits(language: str) -> Make:
    return lambda number, draws: (WORDS[language](number), str(number))


def _digits_to_words(language: str) -> Make:
    return lambda number, draws: (str(number), WORDS[language](number))


def _date(entry: int, draws: Draws) -> tuple[str, str]:
    """A day in one of three English forms, and in ISO format."""
    day = FIRST_DAY + timedelta(days=entry)
    month = MONTHS[day.month - 1]
    ending = "th" if 11 <= day.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = (
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"the {day.day}{ending} of {month} {day.year}",
    )
    return forms[draws.below(len(forms))], day.isoformat()


def _sorting(entry: int, draws: Draws) -> tuple[str, str]:
    numbers = [draws.below(100) for _ in range(3 + draws.below(6))]
    return " ".join(map(str, numbers)), " ".join(map(str, sorted(numbers)))


def _reversing(entry: int, draws: Draws) -> tuple[str, str]:
    word = "".join(chr(ord("a") + draws.below(26)) for _ in range(4 + draws.below(9)))
    return word, word[::-1]


def _arithmetic(entry: int, draws: Draws) -> tuple[str, str]:
    first, second = (draws.below(10 ** (1 + draws.below(3))) for _ in range(2))
    sign = "+-*"[draws.below(3)]
    result = {"+": first + second, "-": first - second, "*": first * second}[sign]
    return f"{first}{sign}{second}", str(result)


def _doubling(entry: int, draws: Draws) -> tuple[str, str]:
    """A digit at half its size, each pixel the mean of four, and at its size."""
    (drawn,) = draw_pictures("digits", 16, draws.below(MOST_DRAWN), 0, 1)
    half = drawn.picture.reshape(8, 2, 8, 2, 1).mean((1, 3)).round().astype(np.uint8)
    return encode_picture(half), encode_picture(drawn.picture)


def _coloring(entry: int, draws: Draws) -> tuple[str, str]:
    """A colored shape in gray, by the mean of its three numbers, and in color."""
    (drawn,) = draw_pictures("colors", 8, draws.below(MOST_DRAWN), 0, 1)
    gray = drawn.picture.mean(2, keepdims=True).round().astype(np.uint8)
    return encode_picture(gray), encode_picture(drawn.picture)


KINDS = {
    **{f"numbers-{language}": Kind(_words_to_digits(language), LARGEST + 1) for language in WORDS},
    **{f"words-{language}": Kind(_digits_to_words(language), LARGEST + 1) for language in WORDS},
    "dates": Kind(_date, DAYS),
    "sorting": Kind(_sorting),
    "reversing": Kind(_reversing),
    "arithmetic": Kind(_arithmetic),
    "pictures-doubling": Kind(_doubling),
    "pictures-coloring": Kind(_coloring),
}
"""the kinds of generated pairs by name"""
