"""Which texts are hard-wrapped prose, and how their lines are joined."""

import json
import random
import textwrap
from pathlib import Path

import pytest

from seqloom.cli.work.survey import survey_source
from seqloom.data.documents import unwrap
from seqloom.data.prepare import prepare
from seqloom.data.wraps import change_of, is_wrapped, join_wraps
from seqloom.training.preset import preset_values
from seqloom.training.settings import resolve

TEXT = "the little girl went into a dark wood and there she saw an old house of bread with white sugar windows"
WORDS = TEXT.split()


def prose(columns: int, paragraphs: int = 5, seed: int = 0) -> str:
    """Paragraphs of 80 words, wrapped at a width."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=80)) for _ in range(paragraphs)]
    return "\n\n".join(textwrap.fill(text, columns) for text in texts)


def wrapped_cjk(letters: str, columns: int) -> str:
    """Lines of as many letters as fit, which is half the columns."""
    text = "".join(random.Random(0).choices(letters, k=400))
    return "\n".join(text[first : first + columns // 2] for first in range(0, len(text), columns // 2))


VERSE = """The sun did set behind the hill
And all the wood was dark and still
No bird would sing
The girl went home without a light
And did not fear the coming night
For anything
O little house of bread and sweet
With windows white for her to eat
And roof of cake"""
DIALOGUE = "\n".join(
    f"{who}: {words}" for who in ("Ann", "Ben") for words in ("Yes.", "Where did you go?", "Home", "No")
)
CODE = """import os
import sys
from pathlib import Path
def main(path):
    return 1
x = main(Path("a"))
result = [line for line in open(x) if line.strip() and not line.startswith("#")]
print(result)
del result"""
TABLE = "\n".join(f"{name},{number},{number * 3}" for name in WORDS for number in (1, 20, 300))
SENTENCES = "\n".join(" ".join(random.Random(n).choices(WORDS, k=random.Random(n).randrange(4, 30))) for n in range(40))
TWO_LINES = "a text of two lines that is much too short to say\nwhether it was wrapped"


@pytest.mark.parametrize("columns", [45, 60, 72, 79, 100])
def test_prose_is_wrapped_at_any_width(columns: int) -> None:
    text = prose(columns)
    assert is_wrapped(text)
    assert join_wraps(text) == unwrap(text) != text
    assert not is_wrapped(unwrap(text))


@pytest.mark.parametrize("text", [VERSE, DIALOGUE, CODE, TABLE, SENTENCES, TWO_LINES, prose(30), "", "\n\n\n"])
def test_other_texts_stay(text: str) -> None:
    assert not is_wrapped(text)
    assert join_wraps(text) == text
    assert change_of("auto") is join_wraps


def test_verse_between_prose_does_not_count() -> None:
    text = prose(72) + "\n\n" + VERSE.replace("\n", "\n    ") + "\n\n" + prose(72, seed=1)
    assert join_wraps(text) == unwrap(text)
    assert "\n    And all the wood" in join_wraps(text)


@pytest.mark.parametrize("letters", ["中文字典漢語，。", "かなカナ漢字の。", "กขคงจฉ"])
def test_letters_without_spaces_are_joined_without_one(letters: str) -> None:
    text = wrapped_cjk(letters, 80 if letters[0] != "ก" else 160)
    assert is_wrapped(text)
    assert join_wraps(text) == text.replace("\n", "")
    assert change_of(True) is unwrap, "which joins as it always did, with spaces"
    assert " " in unwrap(text)


def test_words_next_to_such_letters() -> None:
    lines = [*textwrap.wrap(" ".join(WORDS * 10), 60), "and at the very end of these words there stands the word 漢字"]
    text = "\n".join(
        [*lines, "年 and more of the words", "of Seoul 서울 which has", "서울 spaces between the words of it"]
    )
    joined = join_wraps(text)
    assert joined.endswith("漢字年 and more of the words of Seoul 서울 which has 서울 spaces between the words of it")


@pytest.mark.slow
def test_a_corpus_says_how_many_texts_are_joined(tmp_path: Path) -> None:
    for number, text in enumerate((prose(72), VERSE * 20, prose(60, seed=1), CODE * 20)):
        (tmp_path / f"{number}.txt").write_text(text)
    corpora = {
        mode: prepare(tmp_path, vocab=300, context=8, unwrap=mode, cache=tmp_path / "cache")
        for mode in ("auto", True, False)
    }
    assert {mode: corpus.survey.joined for mode, corpus in corpora.items()} == {"auto": 2, True: None, False: None}
    assert len({corpus.identity for corpus in corpora.values()}) == 3
    text = corpora["auto"].tokenizer.decode(
        [id for tokens in (corpora["auto"].train, corpora["auto"].held_out) for id in tokens.ids.tolist()]
    )
    assert join_wraps(prose(72)) in text
    assert VERSE * 20 in text


@pytest.mark.slow
def test_the_survey_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate((prose(72), VERSE * 20, CODE * 20)):
        (folder / f"{number}.txt").write_text(text)
    row = json.loads(survey_source(str(folder), 300, None, "text", None, 0, as_json=True))
    assert row["documents_of_hard_wrapped_prose"] == 1


def test_recipes_of_the_paper_and_the_board_join_all_lines_as_before() -> None:
    for recipe in ("paper/small", "paper/table1", "paper/spade", "paper/reformer_performer", "board/small", "demo"):
        assert preset_values(recipe)["data"]["unwrap"] is True
    assert resolve("tiny").data.unwrap == "auto"
