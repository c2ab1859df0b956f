"""Pairs of texts: number words by hand, generated kinds, held-out parts, caching, and wrong files and names."""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.paired import divide_pairs, encode_pairs, prepare_paired
from seqloom.data.pairs import KINDS, Pair, pairs, read_pairs
from seqloom.data.pairs.number_words import english, french, german
from seqloom.data.prepare import Corpus
from seqloom.data.tokenizer import Tokenizer

WORDS = [
    (0, "zero", "null", "zéro"),
    (1, "one", "eins", "un"),
    (16, "sixteen", "sechzehn", "seize"),
    (21, "twenty-one", "einundzwanzig", "vingt et un"),
    (70, "seventy", "siebzig", "soixante-dix"),
    (71, "seventy-one", "einundsiebzig", "soixante et onze"),
    (77, "seventy-seven", "siebenundsiebzig", "soixante-dix-sept"),
    (80, "eighty", "achtzig", "quatre-vingts"),
    (81, "eighty-one", "einundachtzig", "quatre-vingt-un"),
    (91, "ninety-one", "einundneunzig", "quatre-vingt-onze"),
    (100, "one hundred", "einhundert", "cent"),
    (101, "one hundred one", "einhunderteins", "cent un"),
    (200, "two hundred", "zweihundert", "deux cents"),
    (316, "three hundred sixteen", "dreihundertsechzehn", "trois cent seize"),
    (1000, "one thousand", "eintausend", "mille"),
    (1001, "one thousand one", "eintausendeins", "mille un"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend", "vingt et un mille"),
    (80_000, "eighty thousand", "achtzigtausend", "quatre-vingt mille"),
    (200_080, "two hundred thousand eighty", "zweihunderttausendachtzig", "deux cent mille quatre-vingts"),
    (
        345_201,
        "three hundred forty-five thousand two hundred one",
        "dreihundertfünfundvierzigtausendzweihunderteins",
        "trois cent quarante-cinq mille deux cent un",
    ),
    (
        999_999,
        "nine hundred ninety-nine thousand nine hundred ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
        "neuf cent quatre-vingt-dix-neuf mille neuf cent quatre-vingt-dix-neuf",
    ),
]


FRENCH_FROM_60 = """
    soixante, soixante et un, soixante-deux, soixante-trois, soixante-quatre, soixante-cinq, soixante-six,
    soixante-sept, soixante-huit, soixante-neuf, soixante-dix, soixante et onze, soixante-douze, soixante-treize,
    soixante-quatorze, soixante-quinze, soixante-seize, soixante-dix-sept, soixante-dix-huit, soixante-dix-neuf,
    quatre-vingts, quatre-vingt-un, quatre-vingt-deux, quatre-vingt-trois, quatre-vingt-quatre, quatre-vingt-cinq,
    quatre-vingt-six, quatre-vingt-sept, quatre-vingt-huit, quatre-vingt-neuf, quatre-vingt-dix, quatre-vingt-onze,
    quatre-vingt-douze, quatre-vingt-treize, quatre-vingt-quatorze, quatre-vingt-quinze, quatre-vingt-seize,
    quatre-vingt-dix-sept, quatre-vingt-dix-huit, quatre-vingt-dix-neuf
"""
FRENCH = {
    17: "dix-sept",
    22: "vingt-deux",
    31: "trente et un",
    180: "cent quatre-vingts",
    280: "deux cent quatre-vingts",
    300: "trois cents",
    301: "trois cent un",
    1071: "mille soixante et onze",
    2000: "deux mille",
    71_071: "soixante et onze mille soixante et onze",
    80_080: "quatre-vingt mille quatre-vingts",
    100_000: "cent mille",
    300_300: "trois cent mille trois cents",
    380_000: "trois cent quatre-vingt mille",
}
GERMAN = {
    6: "sechs",
    7: "sieben",
    17: "siebzehn",
    26: "sechsundzwanzig",
    30: "dreißig",
    31: "einunddreißig",
    66: "sechsundsechzig",
    67: "siebenundsechzig",
    76: "sechsundsiebzig",
    111: "einhundertelf",
    121: "einhunderteinundzwanzig",
    201: "zweihunderteins",
    1100: "eintausendeinhundert",
    1111: "eintausendeinhundertelf",
    2001: "zweitausendeins",
    11_001: "elftausendeins",
    101_101: "einhunderteintausendeinhunderteins",
    700_017: "siebenhunderttausendsiebzehn",
}


def prepared(source: str, **changes: Any) -> Corpus:
    values: dict[str, Any] = {"vocab": 300, "context": 64, "held_out": 0.2, "seed": 0, "tokenizer": None}
    return prepare_paired(source, **{**values, **changes})


@pytest.mark.parametrize(("number", "in_english", "in_german", "in_french"), WORDS)
def test_number_words(number: int, in_english: str, in_german: str, in_french: str) -> None:
    assert (english(number), german(number), french(number)) == (in_english, in_german, in_french)


def test_french_from_60_to_99_by_hand() -> None:
    """Tens that are counted in twenties; "et" stands before un and onze up to 71, and not after that."""
    assert [french(number) for number in range(60, 100)] == " ".join(FRENCH_FROM_60.split()).split(", ")


@pytest.mark.parametrize(("words", "cases"), [(french, FRENCH), (german, GERMAN)], ids=["french", "german"])
def test_further_number_words_by_hand(words: Callable[[int], str], cases: dict[int, str]) -> None:
    assert {number: words(number) for number in cases} == cases


@pytest.mark.slow
@pytest.mark.parametrize("words", [english, german, french])
def test_no_two_numbers_have_the_same_words(words: Callable[[int], str]) -> None:
    numbers = [*range(20_000), *range(20_000, 1_000_000, 997)]
    assert len({words(number) for number in numbers}) == len(numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_a_function_of_seed_and_index(kind: str) -> None:
    first = list(pairs(kind, 40, seed=3))
    assert list(pairs(kind, 200, seed=3))[:40] == first
    assert list(pairs(kind, 40, seed=4)) != first
    assert all(pair.source and pair.target for pair in first)


def test_targets_follow_from_their_sources() -> None:
    for pair in pairs("dates", 300, seed=0):
        day = date.fromisoformat(pair.target)
        assert re.findall(r"\d+", pair.source) in (
            [str(day.day), str(day.year)],
            [str(day.year), str(day.day)],
        )
        assert day.strftime("%B") in pair.source
    for pair in pairs("sorting", 50, seed=0):
        assert pair.target.split() == sorted(pair.source.split(), key=int)
    for pair in pairs("reversing", 50, seed=0):
        assert pair.target == pair.source[::-1]
    for pair in pairs("arithmetic", 200, seed=0):
        first, sign, second = re.fullmatch(r"(\d+)([-+*])(\d+)", pair.source).groups()  # type: ignore[union-attr]
        numbers = int(first), int(second)
        assert int(pair.target) == {"+": sum(numbers), "-": numbers[0] - numbers[1], "*": numbers[0] * numbers[1]}[sign]


def test_ordinals_of_dates() -> None:
    endings = dict(re.findall(r"the (\d+)(\w\w) of", " ".join(pair.source for pair in pairs("dates", 2000, seed=1))))
    wanted = {1: "st", 2: "nd", 3: "rd", 11: "th", 12: "th", 13: "th", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    assert {int(day): ending for day, ending in endings.items()} == {day: wanted.get(day, "th") for day in range(1, 32)}


@pytest.mark.parametrize("kind", KINDS)
def test_no_held_out_source_is_trained_on(kind: str) -> None:
    both = list(pairs(kind, 2000, seed=0))
    train, held = divide_pairs(both, 0.1, 0, kind)
    assert len(train) + len(held) == 2000
    assert 150 < len(held) < 260
    assert not {pair.source for pair in train} & {pair.source for pair in held}


def test_a_corpus_has_sources_and_targets_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"in {number}\tout {number}\n" for number in range(30)))
    corpus = prepared(str(path))
    for side in (corpus.train, corpus.held_out):
        texts = [corpus.tokenizer.decode(ids.tolist()) for ids in np.split(side.ids, side.starts[1:])]
        assert all(
            source.replace("in", "out") == target for source, target in zip(texts[::2], texts[1::2], strict=True)
        )
        assert side.texts == 2
    assert (corpus.train.documents, corpus.held_out.documents) == (48, 12)
    assert prepared(str(path)).identity == corpus.identity != prepared(str(path), seed=1).identity


def test_an_altered_cache_is_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = prepared("pairs:reversing:100", cache=tmp_path)
    (path,) = tmp_path.glob("pairs/*/train-*/*.ids")
    path.write_bytes(path.read_bytes()[:-2])
    again = prepared("pairs:reversing:100", cache=tmp_path)
    assert "building it again" in capsys.readouterr().err
    assert np.array_equal(again.train.ids, corpus.train.ids)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tb\nalone\n", "line 2: one column; a line has a source and a target"),
        ("a\tb\tc\n", "line 1: 3 columns"),
        ("a\t\n", "line 1: an empty target"),
        ("a\tb\n\tb\n", "line 2: an empty source"),
        ("a\tb\n", "cannot be divided into two sides"),
        (f"a\tb\nlong\t{'x ' * 90}\n", "line 2: the target has .* above model.context=64"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(ValueError, match=words) as raised:
        prepared(str(tmp_path / "pairs.tsv"), tokenizer=Tokenizer.of_bytes())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pairs:date", "did you mean 'dates'"),
        ("pairs:dates:many", "both whole numbers"),
        ("pairs:dates:1", "cannot be divided"),
        ("pairs:dates:200000", "has 146,097 pairs, not 200,000"),
        ("pairs:sorting:99999999", "at most 1,000,000"),
        ("pairs:dates:10:99999999999", "a seed must be"),
        ("books.txt", "pairs come from a .tsv file"),
    ],
)
def test_a_wrong_name(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_pairs(name)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_pairs("nowhere.tsv")


def test_pairs_of_a_given_tokenizer() -> None:
    tokens = encode_pairs([Pair("one", "ab", "c")], Tokenizer.of_bytes(), 8)
    assert tokens.ids.tolist() == [98, 99, 0, 100, 0]
