"""Which parts of a line in the unicode notation are words, and which are mathematics."""

from docs.making.signs import Piece

LITTLE_WORDS = ("a", "all", "and", "at", "for", "if", "in", "no", "of", "one", "or", "over", "per", "the", "to", "with")
"""words that are never a variable's name, wherever they stand"""
AFTER_A_NAME = ("is", "learned", "of", "per")
"""words before which `a` is a variable, and not the article"""


def is_words(pieces: list[Piece], at: int) -> bool:
    """Whether a piece is read as words: see `docs.making.notation`."""
    piece = pieces[at]
    before, after = _neighbour(pieces, at, -1), _neighbour(pieces, at, +1)
    if piece.sort == "operand" and piece.text == "a":  # the article?
        led = before is None or before.sort in ("word", "mark")
        return led and after is not None and after.sort in ("operand", "word") and after.text not in AFTER_A_NAME
    if piece.sort == "function":
        is_applied = after is not None and after.sort in ("operand", "open", "function", "large", "code")
        return not (is_applied or (before is not None and before.sort == "operator"))
    if piece.sort not in ("word", "code"):
        return False
    if piece.text in LITTLE_WORDS:
        return True
    around = [each for each in (before, after) if each is not None]
    return not any(each.sort == "operator" for each in around) or any(each.sort == "word" for each in around)


def _neighbour(pieces: list[Piece], at: int, step: int) -> Piece | None:
    """The next piece in a direction that is not a space."""
    at += step
    while 0 <= at < len(pieces) and pieces[at].sort == "space":
        at += step
    return pieces[at] if 0 <= at < len(pieces) else None
