"""ListOps: results by an evaluation of the text, depth and length, and wrong names."""

import pytest

from seqloom.data.labels import from_file
from seqloom.data.list_operations import DEPTH, LENGTH, read_lists


def evaluate(words: list[str], longest: int = LENGTH) -> int:
    """The result of a list, whose words are taken from the front."""
    word = words.pop(0)
    if not word.startswith("["):
        return int(word)
    entries = []
    while words[0] != "]":
        entries.append(evaluate(words, longest))
    words.pop(0)
    assert 2 <= len(entries) <= longest
    ranked = sorted(entries)
    middle = ranked[len(ranked) // 2] if len(ranked) % 2 else ranked[len(ranked) // 2 - 1]
    return {"[MIN": ranked[0], "[MAX": ranked[-1], "[MED": middle, "[SM": sum(entries) % 10}[word]


def measure_depth(text: str) -> int:
    depth = deepest = 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        deepest = max(deepest, depth)
    return deepest


def test_the_label_is_the_result() -> None:
    drawn = read_lists("listops:400")
    for label, (text,) in drawn:
        assert evaluate(text.replace("]", " ]").split()) == int(label)
    assert max(measure_depth(text) for _, (text,) in drawn) == DEPTH
    assert {label for label, _ in drawn} == set("0123456789")
    assert max(text.count("[") for _, (text,) in drawn) > 5
    assert drawn[:5] == read_lists("listops:5")
    assert drawn[:5] != read_lists("listops:5:1")


def test_they_are_labelled_examples() -> None:
    examples = from_file("listops:3")
    assert [(example.label, example.texts) for example in examples] == read_lists("listops:3")


@pytest.mark.parametrize("depth", [1, 2, 6])
def test_lists_of_another_depth(depth: int) -> None:
    drawn = read_lists(f"listops:200:0:{depth}")
    assert max(measure_depth(text) for _, (text,) in drawn) == depth
    assert all(evaluate(text.replace("]", " ]").split()) == int(label) for label, (text,) in drawn)


@pytest.mark.parametrize("length", [2, 3, 7])
def test_lists_of_another_length(length: int) -> None:
    drawn = read_lists(f"listops:200:0:2:{length}")
    assert all(evaluate(text.replace("]", " ]").split(), length) == int(label) for label, (text,) in drawn)
    flat = [len(text.split()) - 1 for _, (text,) in drawn if text.count("[") == 1]
    assert set(flat) == set(range(2, length + 1))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("listops:5:0:0", "nest from 1 to 8 deep, not 0"),
        ("listops:5:0:9", "nest from 1 to 8 deep, not 9"),
        ("listops:5:0:2:1", "at most 2 to 8 entries, not 1"),
        ("listops:5:0:2:9", "at most 2 to 8 entries, not 9"),
    ],
)
def test_sizes_out_of_range(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        read_lists(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["listops:x", "listops:1", "listops:5:1:2:3:4", "listops:5:1:x", "listops:99999999"])
def test_a_wrong_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"listops") as error:
        read_lists(name)
    assert "\n" not in str(error.value)
