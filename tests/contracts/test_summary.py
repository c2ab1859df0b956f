"""The last line of `verify`: how many promises hold, and what was not checked."""

import pytest

from seqloom.contracts import Finding
from seqloom.contracts.finding import Verdict
from seqloom.contracts.summary import list_unchecked, summary

VERDICTS: dict[str, Verdict] = {"h": "holds", "n": "does not apply", "b": "breaks"}
NAMES = ("causality", "rows", "padding", "gaps", "pieces", "steps", "gradients", "price", "bfloat16", "compile")


def findings(verdicts: str) -> list[Finding]:
    return [Finding(name, VERDICTS[letter], "") for name, letter in zip(NAMES, verdicts, strict=True)]


@pytest.mark.parametrize(
    ("verdicts", "line"),
    [
        ("hhhhhhhhhh", "10 hold, 0 do not apply, 0 fail"),
        ("hhhhnnhnhh", "7 hold, 3 do not apply (so streaming and the price were not checked), 0 fail"),
        ("hhhhnnhhhh", "8 hold, 2 do not apply (so streaming was not checked), 0 fail"),
        ("hhhhnhhhhb", "8 hold, 1 does not apply (so reading in pieces was not checked), 1 fails"),
        ("nhnnnhnbbb", "2 hold, 5 do not apply (so causality, a mask, reading in pieces and the backward were not "
                       "checked), 3 fail"),
        ("nbbbbbbbbh", "1 holds, 1 does not apply (so causality was not checked), 8 fail"),
    ],
)  # fmt: skip
def test_one_line(verdicts: str, line: str) -> None:
    assert summary(findings(verdicts)) == line


def test_each_promise_has_words() -> None:
    assert list_unchecked(findings("nnnnnnnnnn")) == [
        "causality", "the independence of rows", "a mask", "streaming", "the backward", "the price", "bfloat16",
        "compilation",
    ]  # fmt: skip
