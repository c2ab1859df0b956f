"""Cuts long texts into pieces that are encoded in parallel and in little memory; the ids are those of the whole text.

Encoding takes about 200 bytes of memory per token. A text whose tokenizer does not allow cuts (`divides`) is encoded as
a whole.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

LETTER = r"[^\W_]"
WORDS = rf"{LETTER}+(?:['’]{LETTER}+)*| ?(?:[^\w\s]|_) ?|\n+"
"""matches one token of the module `words`: a word, a sign with the spaces around it, or line breaks"""
BLANKS = r"[^\S\n]+"
"""matches what the module `words` reads as one space"""
_SEAM = re.compile(r"(?<=[0-9A-Za-z]) (?=[0-9A-Za-z])")
"""a seam, before which a text may be cut: a single space between ASCII letters or digits"""
_MARK = "\u2581"
"""SentencePiece's mark of a space in tokens"""
_LOCAL = {"BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD"}
"""normalizers that change every visible ASCII character and every space independently of its neighbors"""
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


def divides(form: dict[str, Any]) -> bool:
    """Whether a tokenizer (`form`: its tokenizer.json) gives any text the ids of its `pieces`, concatenated.

    It does so where a word starts at every seam, or where no token crosses a seam.
    """
    if not all(token["special"] or _is_within(token) for token in form["added_tokens"]):
        return False
    if all(step["type"] in _LOCAL for step in _steps(form["normalizer"], "normalizers")):
        return _breaks_at_seams(form)
    return _of_words(form)


def _breaks_at_seams(form: dict[str, Any]) -> bool:
    """Whether the pre-tokenizer starts a word at every seam, or the model has no token that crosses one."""
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
    """Whether it is a tokenizer of the module `words`, which drops the space of a seam."""
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
    """Whether an added token cannot cross a seam, as a token that contains or strips a space could."""
    return " " not in token["content"] and not token["lstrip"] and not token["rstrip"]


def _begins_tokens(model: dict[str, Any]) -> bool:
    """Whether the mark of a space is a token itself, and never follows another character within a token."""
    vocab = model["vocab"]
    tokens = set(vocab) if isinstance(vocab, dict) else {token for token, _ in vocab}
    return _MARK in tokens and not any(re.search(f"[^{_MARK}]{_MARK}", token) for token in tokens)


def pieces(text: str, size: int = 1 << 15) -> Iterator[str]:
    """Cuts a text into pieces of about `size` characters whose ids, concatenated, are the ids of the text.

    This holds for tokenizers that seqloom trains, and for those for which `divides` is True.
    """
    start = 0
    while len(text) - start > size and (seam := _SEAM.search(text, start + size)):
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


def groups(texts: Iterable[str], size: int = 1 << 21, *, divides: bool = True) -> Iterator[list[tuple[int, bool, str]]]:
    """Groups of pieces of about `size` characters, as (number of the text, whether the piece is its last, piece).

    Unless `divides`, a text is one piece.
    """
    group: list[tuple[int, bool, str]] = []
    characters = 0
    for number, text in enumerate(texts):
        parts = list(pieces(text)) if divides else [text]
        for piece_number, piece in enumerate(parts, 1):
            group.append((number, piece_number == len(parts), piece))
            characters += len(piece)
            if characters >= size:
                yield group
                group, characters = [], 0
    if group:
        yield group
