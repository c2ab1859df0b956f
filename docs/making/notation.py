"""The unicode notation of the mixers' equations as TeX, which KaTeX typesets.

    y_t = Σ_{j≤t} a_tj v_j for all t     →     y_{t}=\\sum _{j\\le t}a_{tj}\\,v_{j}, the words " for all ", and t

A line is cut into runs of mathematics and of words, so that a browser breaks the line between them. A letter is a
variable; a word is mathematics if it is a known function, has an argument or an index, or stands next to an operator.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from docs.making.signs import (
    ACCENTS,
    CLOSING,
    FUNCTIONS,
    LOWERED,
    OPENING,
    OPERATORS,
    RAISED,
    SHARES,
    SIGNS,
    Piece,
    Sort,
)
from docs.making.words import is_words

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<code>`[^`]+`)"
    r"|(?P<word>\d-D\b|[a-z]\d[a-z]?\b|[A-Z]{2,}|(?:[A-Z][a-z]+|[a-z]{2,})(?:-[a-z]{2,})*(?:'s\b)?(?![\u0300-\u036f]))"
    r"|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?|[¼½¾∞…])"
    r"|(?P<letter>[A-Za-zα-ωΑ-Ω](?<![ΣΠ])[\u0300-\u036f]?|\|)|(?P<sign>\S)"
)
_INDEX = re.compile(r"-?(?:[A-Za-z0-9α-ωΑ-Ω][\u0300-\u036f]?)+'*")


@final
@dataclass(frozen=True)
class Run:
    """A part of a line: mathematics with its TeX, or words (`tex` is empty)."""

    text: str
    tex: str = ""


def runs(line: str) -> list[Run]:
    """The runs of a line, whose texts together are the line; a ValueError names a sign without translation."""
    pieces = list(_pieces(unicodedata.normalize("NFD", line)))
    found: list[Run] = []
    depth = 0
    start = 0
    for at, piece in enumerate(pieces):
        depth += (piece.sort == "open") - (piece.sort == "close")
        if is_words(pieces, at) or (piece.sort == "mark" and depth == 0):
            found += _mathematics(pieces, start, at)
            found.append(Run(_composed(piece.text)))
            start = at + 1
    return [*found, *_mathematics(pieces, start, len(pieces))]


def tex(text: str, *, index: bool = False) -> str:
    """Text as one formula, with its words inside; in an index every word is a product of letters."""
    pieces = list(_pieces(unicodedata.normalize("NFD", text), index=index))
    are_words = [is_words(pieces, at) for at in range(len(pieces))]
    return "".join(
        rf"\text{{{piece.text}}}"
        if are_words[at]
        else (r"\ " if piece.sort == "space" and any(are_words[at - 1 : at + 2]) else _piece_tex(pieces, at))
        for at, piece in enumerate(pieces)
    )


def _mathematics(pieces: list[Piece], start: int, end: int) -> Iterator[Run]:
    """The run of the pieces from `start` to `end`, with the spaces around it apart."""
    text = _composed("".join(piece.text for piece in pieces[start:end]))
    signs = ("space", "open", "close", "mark")
    if all(piece.sort in signs and len(piece.text.strip()) < 2 for piece in pieces[start:end]):
        yield from [Run(text)] if text else []
        return
    inner = text.strip()
    before, _, after = text.partition(inner)
    yield from [Run(before)] if before else []
    yield Run(inner, "".join(_piece_tex(pieces, at, start, end) for at in range(start, end)).strip())
    yield from [Run(after)] if after else []


def _piece_tex(pieces: list[Piece], at: int, start: int = 0, end: int | None = None) -> str:
    """The TeX of a piece; of a space between two factors a thin space."""
    piece = pieces[at]
    if piece.sort == "word":
        return rf"\mathrm{{{piece.tex}}}"
    if piece.sort != "space":
        return piece.tex
    end = len(pieces) if end is None else end
    if not start < at < end - 1:
        return ""
    factors = pieces[at - 1].sort in ("operand", "close", "word", "code")
    return r"\," * (factors and pieces[at + 1].sort in ("operand", "open", "word", "code"))


def _pieces(text: str, *, index: bool = False) -> Iterator[Piece]:
    """The pieces of a text, each with its indices; in an index a word is a product of letters."""
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token
        sort, base, end = _base(text, token)
        scripts, stop = _scripts(text, end, token[0])
        if sort == "word" and index:
            sort = "operand"
        elif sort == "word" and (stop > end or text[stop : stop + 1] == "("):
            sort, base = "operand", rf"\mathrm{{{base}}}"
        yield Piece(sort, text[at:stop], base + scripts)
        at = stop


def _base(text: str, token: re.Match[str]) -> tuple[Sort, str, int]:
    """Sort, TeX and end of a token without its indices."""
    sign, end = token[0], token.end()
    if sign == "√":
        return _root(text, end)
    if token.lastgroup == "word":
        return *_word(sign), end
    if token.lastgroup in _READ:
        sort, read = _READ[token.lastgroup]
        return sort, read(sign), end
    if sign not in SIGNS:
        raise ValueError(f"no TeX for {sign!r} in {text!r}")
    return *SIGNS[sign], end


def _word(word: str) -> tuple[Sort, str]:
    if word == "mod":
        return "operator", r"\bmod "
    if word in FUNCTIONS:
        return "function", FUNCTIONS[word]
    return ("operand" if word.isupper() and word.isalpha() else "word"), word


def _letter(sign: str) -> str:
    if len(sign) > 1 and sign[1] not in ACCENTS:
        raise ValueError(f"no TeX for {sign!r}")
    return rf"{ACCENTS[sign[1]]}{{{sign[0]}}}" if len(sign) > 1 else sign


def _number(sign: str) -> str:
    if sign in SHARES:
        return r"\tfrac{{{}}}{{{}}}".format(*SHARES[sign].split("/"))
    signs = {"∞": r"\infty ", "…": r"\dots "}
    mantissa, _, power = sign.partition("e")
    factor = "" if mantissa == "1" else rf"{mantissa}\cdot "
    return signs.get(sign) or (f"{factor}10^{{{power}}}" if power else sign.replace(",", "{,}"))


def _code(sign: str) -> str:
    name = sign.strip("`").replace("_", r"\_")
    return rf"\texttt{{{name}}}"


_READ: dict[str, tuple[Sort, Callable[[str], str]]] = {
    "space": ("space", lambda _: ""),
    "code": ("code", _code),
    "number": ("operand", _number),
    "letter": ("operand", _letter),
}


def _root(text: str, at: int) -> tuple[Sort, str, int]:
    """The root of what is in brackets, or of the next letter or number."""
    if text[at : at + 1] == "(":
        end = _closing(text, at)
        return "operand", rf"\sqrt{{{tex(text[at + 1 : end - 1])}}}", end
    under = next(_pieces(text[at:]), None)
    if under is None:
        raise ValueError(f"a root of nothing in {text!r}")
    return "operand", rf"\sqrt{{{under.tex}}}", at + len(under.text)


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens at `at` has closed."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in OPENING) - (text[end] in CLOSING)
        if depth == 0:
            return end + 1
    raise ValueError(f"an open bracket in {text!r}")


def _scripts(text: str, at: int, base: str) -> tuple[str, int]:
    """The indices, powers and primes that follow directly, and where they end."""
    found = ""
    if base.isspace() or base in OPERATORS:
        return found, at
    while at < len(text):
        raised = next((sign for sign in RAISED if text.startswith(sign, at)), "")
        if raised:
            found, at = f"{found}^{{{RAISED[raised]}}}", at + len(raised)
        elif text[at] in LOWERED:
            found, at = f"{found}_{{{LOWERED[text[at]]}}}", at + 1
        elif text[at] == "'":
            found, at = found + "'", at + 1
        elif re.match(r"\*(?!\s*[\w(])", text[at:]):  # a conjugate transpose
            found, at = found + "^{*}", at + 1
        elif text[at] in "_^" and at + 1 < len(text):
            sign = text[at]
            inner, at = _index(text, at + 1, base)
            found += f"{sign}{{{inner}}}"
        else:
            break
    return found, at


def _index(text: str, at: int, base: str) -> tuple[str, int]:
    """The TeX of an index, and where it ends; an index of W that is a word is upright."""
    if text[at] == "{":
        end = _closing(text, at)
        return tex(text[at + 1 : end - 1], index=True), end
    if text[at] == "[" and "]" in text[at:]:  # the Extractor paper's names of matrices
        end = text.index("]", at) + 1
        name = text[at:end].replace("_", r"\_")
        return rf"\text{{{name}}}", end
    if text[at] == "`" and "`" in text[at + 1 :]:
        end = text.index("`", at + 1) + 1
        return _code(text[at:end]), end
    if text[at] in SHARES:
        return SHARES[text[at]], at + 1
    found = _INDEX.match(text, at)
    if found is None:
        raise ValueError(f"no index after {text[:at]!r}")
    is_word = len(found[0]) > 1 and found[0].isalpha() and (base in ("W", "b") or len(found[0]) > 2)
    return rf"\mathrm{{{found[0]}}}" if is_word else tex(found[0], index=True), found.end()


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
