"""Ids into text: whole characters, and nothing from the first stop string on, however tokens split it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.generation.text import pieces


class Spelled:
    """Id n is the n-th of the given strings."""

    eos = -1

    def __init__(self, words: list[str], rest: str = "") -> None:
        self.words, self.rest = words, rest

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def stream(self, after: Sequence[int] = ()) -> "Spelled":
        return self

    def push(self, id: int) -> str:
        return self.words[id]

    def finish(self) -> str:
        return self.rest


def spoken(words: list[str], stop: list[str], rest: str = "") -> list[str]:
    return list(pieces(range(len(words)), Spelled(words, rest), stop))


@pytest.mark.parametrize(
    ("words", "stop", "want"),
    [
        (["ab", "cd"], [], ["ab", "cd"]),
        (["ab", "", "cd"], [], ["ab", "cd"]),
        (["ab", "cd"], ["bc"], ["a"]),
        (["ab", "xd"], ["bc"], ["a", "bxd"]),  # held back, then free
        (["ab"], ["bc"], ["a", "b"]),  # flushed at the end
        (["abc", "d"], ["abc"], []),
        (["a", "a", "a", "b"], ["aab"], ["a"]),
        (["a", "bcd"], ["abcd", "bc"], ["a"]),  # the first to be complete
        (["abcd"], ["abcd", "bc"], ["a"]),
        (["abc"], ["bc", "abc"], []),  # both complete at once: the longest
    ],
)
def test_named_stops(words: list[str], stop: list[str], want: list[str]) -> None:
    assert spoken(words, stop) == want


def test_what_the_decoder_has_left_is_text_too() -> None:
    assert spoken(["a"], [], "\ufffd") == ["a", "\ufffd"]
    assert spoken(["a", "b"], ["b\ufffd"], "\ufffd") == ["a"]


@pytest.mark.parametrize(
    ("ids", "want"),
    [([6, 7, 9, 10, 1], ["é", "🐈", "a"]), ([1, 9], ["a", "\ufffd"]), ([6, 1], ["\ufffda"]), ([0, 1, 0], ["a"])],
)
def test_only_whole_characters_come(letters: Any, ids: list[int], want: list[str]) -> None:
    assert list(pieces(ids, letters)) == want


def test_nothing_is_read_past_the_stop() -> None:
    ids = iter(range(4))
    assert "".join(pieces(ids, Spelled(["a", "b", "c", "d"]), ["b"])) == "a"
    assert next(ids) == 2


def by_character(text: str, stop: list[str]) -> str:
    for end in range(1, len(text) + 1):
        if ended := [s for s in stop if text[:end].endswith(s)]:
            return text[: end - max(map(len, ended))]
    return text


@pytest.mark.slow
@given(words=st.lists(st.text("ab ", max_size=4), max_size=8), stop=st.lists(st.text("ab ", min_size=1, max_size=4)))
def test_stops_do_not_depend_on_the_cut(words: list[str], stop: list[str]) -> None:
    result = spoken(words, stop)
    assert "".join(result) == by_character("".join(words), stop)
    assert all(result)


def test_pieces_come_as_soon_as_they_are_sure() -> None:
    given: list[Any] = []

    def ids() -> Any:
        for id in range(3):
            given.append(id)
            yield id

    stream = pieces(ids(), Spelled(["ab", "c", "d"]), ["cx"])
    assert (next(stream), given) == ("ab", [0])
    assert (next(stream), given) == ("cd", [0, 1, 2])
