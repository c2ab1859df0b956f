"""Where a text may be cut for a tokenizer, so that the ids of its pieces are the ids of the whole text: its seams.

A tokenizer cuts a text into words and gives each word its ids, so that a seam is where one word ends and another one
begins, whatever follows. A single space between letters or digits of any script is one for every tokenizer below. Where
a text has none for long, as Chinese or a table of numbers, the tokenizer's own pattern is asked for its words.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import tokenizers
from tokenizers import Regex, pre_tokenizers

from seqloom.data.merges import WORD

LETTER = r"[^\W_]"
WORDS = rf"{LETTER}+(?:['’]{LETTER}+)*| ?(?:[^\w\s]|_) ?|\n+"
"""matches one token of the module `words`: a word, a sign with the spaces around it, or line breaks"""
BLANKS = r"[^\S\n]+"
"""matches what the module `words` reads as one space"""
_COMMON = (
    "0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03a3-\u03c9\u0400-\u0481\u048a-\u052f\u05d0-\u05ea\u0620-\u064a"
    "\u0904-\u0939\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
)
"""letters of the most used scripts, which are letters by every version of Unicode"""
_SPACE = re.compile(rf"(?<=[{_COMMON}]) (?=[{_COMMON}])")
_SPACE_OR_IDEOGRAPHS = re.compile(rf"{_SPACE.pattern}|(?<=[\u4e00-\u9fff])(?=[\u4e00-\u9fff])")
"""matches the seams of BERT's normalizer, which makes each ideograph a word"""
_MARK = "\u2581"
"""SentencePiece's mark of a space in tokens"""
_LOCAL = {"BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD"}
"""normalizers that change every letter and every space between letters independently of what is beyond the space"""
_BLANKS = {"Whitespace", "WhitespaceSplit", "BertPreTokenizer"}
"""pre-tokenizers that end a word at each space and drop the space"""
_FURTHER = {"Punctuation", "Digits"}
"""pre-tokenizers that only cut words into smaller ones"""
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?"
_SPLITS = {
    _CONTRACTIONS + r"\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for digits in ("", "{1,3}")
}
"""the word patterns of Qwen 2 and Llama 3, which also start a word at each single space"""
_AHEAD = 4
"""characters after the end of a word that decide, in all of these patterns, whether it ends there"""


@final
@dataclass(frozen=True)
class Seams:
    """The seams of one tokenizer: a `pattern` that matches at some of them, and `starts`, which finds them all.

    `starts` takes a text that begins at a seam and returns where its words start; the last of these may be wrong where
    the text is cut off.
    """

    pattern: re.Pattern[str]
    starts: Callable[[str], Sequence[int]] | None = None

    def last(self, text: str) -> int:
        """The last seam that is found in a text, which begins at a seam and is cut off at its end; 0 if there is none.

        The end of the text is searched first, since most texts have a space there.
        """
        for first in (max(1, len(text) - 1000), 1):
            *_, seam = (0, *(match.start() for match in self.pattern.finditer(text, first)))
            if seam:
                return seam
        if self.starts is None:
            return 0
        # blanks at the end of a piece are other words than before further text
        starts = (start for start in self.starts(text) if not text[start - 1 : start].isspace())
        return max((start for start in starts if start <= len(text) - _AHEAD), default=0)


def seams_of(inner: tokenizers.Tokenizer, form: dict[str, Any]) -> Seams | None:
    """The seams of a tokenizer (`form`: its tokenizer.json); None where it is not known that it has any.

    It has them where a word starts at every single space between letters, or where no token crosses one.
    """
    if not all(token["special"] or _is_within(token) for token in form["added_tokens"]):
        return None
    if _of_words(form):
        return WORD_SEAMS
    kinds = [step["type"] for step in _steps(form["normalizer"], "normalizers")]
    if not all(kind in _LOCAL for kind in kinds) or not _breaks_at_seams(form):
        return None
    first = _steps(form["pre_tokenizer"], "pretokenizers")[0]["type"]
    if first in _BLANKS and kinds == ["BertNormalizer"] and form["normalizer"]["handle_chinese_chars"]:
        return Seams(_SPACE_OR_IDEOGRAPHS)
    # further added tokens may be anywhere, and what a normalizer changes could change the words
    plain = all(token["special"] for token in form["added_tokens"]) and kinds in ([], ["NFC"])
    if not plain or first == "Metaspace":
        return Seams(_SPACE)
    return Seams(_SPACE, _starts(inner.pre_tokenizer, composes=bool(kinds)))


def _starts(pattern: pre_tokenizers.PreTokenizer, *, composes: bool) -> Callable[[str], list[int]]:
    """Where the words of a text start; if the tokenizer `composes` characters, of a text that is composed already."""

    def starts(text: str) -> list[int]:
        if composes and not unicodedata.is_normalized("NFC", text):
            return []
        starts = [start for _, (start, _) in pattern.pre_tokenize_str(text)]
        return [start for start in starts if not composes or not unicodedata.combining(text[start])]

    return starts


def _word_starts(text: str) -> list[int]:
    """Where the tokens of the module `words` start, except at blanks, which may be parts of the token before."""
    words = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True).pre_tokenize_str(text)
    return [start for word, (start, _) in words if word[0] == "\n" or not word[0].isspace()]


BYTE_LEVEL_SEAMS = Seams(_SPACE, _starts(pre_tokenizers.Split(Regex(WORD), "isolated"), composes=False))
"""of the tokenizers that are trained here"""
WORD_SEAMS = Seams(_SPACE, _word_starts)
"""of the module `words`"""


def _breaks_at_seams(form: dict[str, Any]) -> bool:
    """Whether the pre-tokenizer starts a word at every single space, or the model has no token that crosses one."""
    match _steps(form["pre_tokenizer"], "pretokenizers"):
        case [{"type": "ByteLevel", "use_regex": True, "add_prefix_space": False}]:
            return True  # the word pattern of GPT-2
        case [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
        ]:
            return pattern in _SPLITS
        case [{"type": "Metaspace", "replacement": mark, "split": split}]:
            return bool(mark == _MARK and (split or _begins_tokens(form["model"])))
        case [first, *others]:
            return first["type"] in _BLANKS and all(step["type"] in _FURTHER for step in others)
    return False


def _of_words(form: dict[str, Any]) -> bool:
    """Whether it is a tokenizer of the module `words`, which drops a space between two words."""
    match form["normalizer"], form["pre_tokenizer"]:
        case (
            {"type": "Replace", "pattern": {"Regex": blanks}, "content": " "},
            {"type": "Split", "pattern": {"Regex": words}, "behavior": "Removed", "invert": True},
        ):
            return bool(blanks == BLANKS and words == WORDS)
    return False


def _steps(step: dict[str, Any] | None, inner: str) -> Sequence[dict[str, Any]]:
    """The steps of a part of tokenizer.json, which is one step or a sequence of them."""
    if step is None:
        return []
    steps: Sequence[dict[str, Any]] = step[inner] if step["type"] == "Sequence" else [step]
    return steps


def _is_within(token: dict[str, Any]) -> bool:
    """Whether an added token cannot cross a space, as a token that contains or strips one could."""
    return " " not in token["content"] and not token["lstrip"] and not token["rstrip"]


def _begins_tokens(model: dict[str, Any]) -> bool:
    """Whether the mark of a space is a token itself, and never follows another character within a token."""
    vocab = model["vocab"]
    tokens = set(vocab) if isinstance(vocab, dict) else {token for token, _ in vocab}
    return _MARK in tokens and not any(re.search(f"[^{_MARK}]{_MARK}", token) for token in tokens)
