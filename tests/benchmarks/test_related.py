"""benchmarks/related.py: pairs agree with their labels, and two short convolutions cannot relate their texts."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seqloom.mixers import mixer_config

Script = Callable[[str], Any]


def test_labels_say_whether_two_texts_begin_with_the_same_word(script: Script, tmp_path: Path) -> None:
    related = script("related")
    related.pairs_of_words(tmp_path / "first.tsv")
    rows = [line.split("\t") for line in (tmp_path / "first.tsv").read_text().splitlines()]
    assert Counter(row[0] for row in rows) == {"same": related.PAIRS // 2, "different": related.PAIRS // 2}
    for label, *texts in rows:
        first, second = (text.split(" ") for text in texts)
        assert len(first) == len(second) == related.WORDS
        assert (first[0] == second[0]) == (label == "same")
    later = [(first.split(" ")[1], second.split(" ")[1]) for _, first, second in rows]
    assert abs(sum(one == other for one, other in later) / len(rows) - 1 / related.KNOWN) < 0.02


def test_two_short_convolutions_do_not_reach_from_one_first_word_to_the_other(script: Script) -> None:
    related = script("related")
    apart = related.WORDS + 1  # `<eos>` stands between the texts
    short = mixer_config({"kind": "lightweight_conv", "heads": 4})
    assert 2 * (short.kernel // 2) < apart / 2 <= (1 + 4) * (short.kernel // 2)
