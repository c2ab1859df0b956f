"""The sentence of the tour: at most twelve tokens, one of which can be another word."""

import pytest

from seqloom.data.tokenizer import Tokenizer
from seqloom.tour.sentence import LONGEST, TEXTS, default_text, find_place, other_words, read_sentence, words_of
from tests.tour.making import TEXT, three


def test_at_most_twelve_tokens_are_kept() -> None:
    model, tokenizer = three().models["gated_delta"], three().tokenizer
    short = read_sentence(TEXT, None, model, tokenizer)
    assert "".join(words_of(tokenizer, short.ids)) == TEXT
    assert short.left_out == 0
    long = read_sentence(f"{TEXT} {TEXT}", None, model, tokenizer)
    assert len(long.ids) == LONGEST
    assert long.left_out == len(tokenizer.encode(f"{TEXT} {TEXT}")) - LONGEST > 0


def test_the_text_whose_words_are_whole_tokens_is_taken() -> None:
    assert default_text(three().tokenizer) == TEXTS[1]
    assert default_text(Tokenizer.of_bytes()) in TEXTS


def test_the_variants_differ_at_one_place() -> None:
    model, tokenizer = three().models["gated_delta"], three().tokenizer
    sentence = read_sentence(TEXT, "girl", model, tokenizer)
    first, *others = sentence.variants
    assert tokenizer.decode([first[sentence.place]]) == " girl"
    assert 0 < len(others) <= 12
    for ids in others:
        assert [i for i, (a, b) in enumerate(zip(first, ids, strict=True)) if a != b] == [sentence.place]
    words = [tokenizer.decode([id]) for id in other_words(model, tokenizer, sentence.ids, sentence.place)]
    assert all(word[0] == " " and word[1:].isalpha() and word.islower() for word in words)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    ("words", "word", "place"),
    [
        (["The", " king", " gave", " the", " girl", " a", " gold", " ring", " and", " the", " king"], None, 4),
        (["The", " king", " gave", " the", " girl", " a", " gold", " ring", " and", " the", " king"], "king", 1),
        (["A", " b", "."], None, 1),
    ],
)
def test_the_place_of_the_word(words: list[str], word: str | None, place: int) -> None:
    assert find_place(words, word) == place


@pytest.mark.parametrize(
    ("text", "word", "says"),
    [("", None, "at least 3"), ("a", None, "at least 3"), (TEXT, "queen", "choose from"), (TEXT, "", "choose from")],
)
def test_what_cannot_be_shown_is_one_clear_line(text: str, word: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        read_sentence(text, word, three().models["gated_delta"], three().tokenizer)
    assert "\n" not in str(error.value)
