"""Long texts cut into pieces, so that all cores encode them in little memory, without changing one id.

An encoding takes about 200 bytes a token while it is made. A text that cannot be cut is encoded at once; see `divides`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

LETTER = r"[^\W_]"
WORDS = rf"{LETTER}+(?:['’]{LETTER}+)*| ?(?:[^\w\s]|_) ?|\n+"
"""the tokens of `words`: a word, a sign with its blanks, or a break"""
BLANKS = r"[^\S\n]+"
"""what is one blank to `words`"""
_SEAM = re.compile(r"(?<=[0-9A-Za-z]) (?=[0-9A-Za-z])")
"""where a text is cut: before a single blank between ASCII letters or digits"""
_MARK = "\u2581"
"""the mark of a blank in tokens of SentencePiece"""
_LOCAL = {"BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD"}
"""normalizers that change each visible ASCII character and each blank by itself"""
_BLANKS = {"Whitespace", "WhitespaceSplit", "BertPreTokenizer"}
"""pre-tokenizers that end a word at each blank and drop the blank"""
_FURTHER = {"Punctuation", "Digits"}
"""pre-tokenizers that only cut words into smaller ones"""
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?"
_SPLITS = {
    _CONTRACTIONS + r"\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for digits in ("", "{1,3}")
}
"""the patterns of words of Qwen 2 and Llama 3, where a word starts at each single blank, too"""


def divides(form: dict[str, Any]) -> bool:
    """Whether the ids of any text are those of its `pieces`, one after the other, of a tokenizer.json.

    So it is where a word starts at each seam, or where no token goes across one.
    """
    within = all(token["special"] or _is_within(token) for token in form["added_tokens"])
    if not within or not all(step["type"] in _LOCAL for step in _steps(form["normalizer"], "normalizers")):
        return within and _of_words(form)
    match _steps(form["pre_tokenizer"], "pretokenizers"):
        case [{"type": "ByteLevel", "use_regex": True, "add_prefix_space": False}]:
            return True  # GPT-2's words
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
    """Whether its tokens are those of `words`, which drop the blank of a seam."""
    match form["normalizer"], form["pre_tokenizer"]:
        case (
            {"type": "Replace", "pattern": {"Regex": blanks}, "content": " "},
            {"type": "Split", "pattern": {"Regex": words}, "behavior": "Removed", "invert": True},
        ):
            return bool(blanks == BLANKS and words == WORDS)
    return False


def _steps(step: dict[str, Any] | None, inner: str) -> Sequence[dict[str, Any]]:
    """A step of tokenizer.json, or those of a sequence of steps."""
    if step is None:
        return []
    steps: Sequence[dict[str, Any]] = step[inner] if step["type"] == "Sequence" else [step]
    return steps


def _is_within(token: dict[str, Any]) -> bool:
    """Whether an added token cannot lie across a seam, as one that holds or swallows a blank could."""
    return " " not in token["content"] and not token["lstrip"] and not token["rstrip"]


def _begins_tokens(model: dict[str, Any]) -> bool:
    """Whether the mark of a blank is a token, and stands after no other character in any."""
    vocab = model["vocab"]
    tokens = set(vocab) if isinstance(vocab, dict) else {token for token, _ in vocab}
    return _MARK in tokens and not any(re.search(f"[^{_MARK}]{_MARK}", token) for token in tokens)


def pieces(text: str, size: int = 1 << 15) -> Iterator[str]:
    """Cuts a text into pieces of about `size` characters whose encodings, end to end, are exactly the text's.

    This holds for tokenizers that are trained here, and for those of `divides`.
    """
    start = 0
    while len(text) - start > size and (seam := _SEAM.search(text, start + size)):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


def groups(texts: Iterable[str], size: int = 1 << 21, *, divides: bool = True) -> Iterator[list[tuple[int, bool, str]]]:
    """The pieces of texts as (number of the text, whether it is its last, piece), about `size` characters together.

    Unless `divides`, a text is one piece.
    """
    group: list[tuple[int, bool, str]] = []
    filled = 0
    for number, text in enumerate(texts):
        parts = list(pieces(text)) if divides else [text]
        for count, piece in enumerate(parts, 1):
            group.append((number, count == len(parts), piece))
            filled += len(piece)
            if filled >= size:
                yield group
                group, filled = [], 0
    if group:
        yield group
