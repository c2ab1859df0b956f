"""The sentence of the tour: at most twelve tokens, and a dozen words that can stand in the place of one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from seqloom.core.model import Model
from seqloom.data.tokenizer import Tokenizer

TEXTS = (
    "The king gave the girl a gold ring and the king",
    "Once upon a time a shy boy named Otto lived by the river",
)
"""sentences of the tour, of which the one is taken whose words are whole tokens: of books, of the generated stories"""
LONGEST, FEWEST = 12, 3
"""tokens of a sentence"""
OTHERS = 12
"""words that can be chosen in the place of one"""
FREQUENT = 400
"""the most probable next tokens among which other words are looked for"""


@final
@dataclass(frozen=True)
class Sentence:
    """Token ids, with the words of which one can take the place of the token at `place`."""

    ids: list[int]
    place: int
    others: list[int]
    """ids of other words for that place"""
    left_out: int
    """tokens of the text that are left out, since it is longer"""

    @property
    def variants(self) -> list[list[int]]:
        """The ids as given, then with each other word in its place."""
        return [
            [*self.ids[: self.place], id, *self.ids[self.place + 1 :]] for id in (self.ids[self.place], *self.others)
        ]


def read_sentence(text: str, word: str | None, model: Model, tokenizer: Tokenizer) -> Sentence:
    """The first tokens of a text, and other words for `word`, or for one in its middle, as the model finds them likely.

    ValueError for a text of fewer than three tokens, and for a word that is not one token of it after the first.
    """
    ids = tokenizer.encode(text.strip())
    if len(ids) < FEWEST:
        raise ValueError(f"{text!r} has {len(ids)} tokens: give a sentence of at least {FEWEST}")
    kept = ids[:LONGEST]
    words = words_of(tokenizer, kept)
    place = find_place(words, word)
    return Sentence(kept, place, other_words(model, tokenizer, kept, place), len(ids) - len(kept))


def default_text(tokenizer: Tokenizer) -> str:
    """The text that takes the fewest tokens for its length."""
    return min(TEXTS, key=lambda text: len(tokenizer.encode(text)) / len(text))


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of each token; empty for one that ends in the middle of a character."""
    stream = tokenizer.stream()
    return [stream.push(id) for id in ids]


def find_place(words: Sequence[str], word: str | None) -> int:
    """The position of a word among tokens: of the first that is `word`, or else of the longest in the first half.

    The first token is never chosen, since no word before it says what is probable. ValueError where no other is it.
    """
    if word is not None:
        places = [place for place, piece in enumerate(words) if place and piece.strip() == word.strip() != ""]
        if not places:
            raise ValueError(
                f"no token after the first is {word!r}: choose from {', '.join(piece.strip() for piece in words[1:])}"
            )
        return places[0]
    return max(range(1, max(2, len(words) // 2)), key=lambda place: (len(words[place].strip()), place))


def other_words(model: Model, tokenizer: Tokenizer, ids: Sequence[int], place: int) -> list[int]:
    """The whole words that the model finds most probable at `place`, without the one that is there."""
    with torch.inference_mode():
        logits = model(torch.tensor([ids[:place]], device=model.device))[0, -1]
    own = tokenizer.decode([ids[place]])
    found = []
    for id in logits.topk(min(FREQUENT, len(logits))).indices.tolist():
        piece = "" if id == tokenizer.eos else tokenizer.decode([id])
        if piece != own and piece[:1] == own[:1] == " " and piece[1:].isalpha() and piece.islower() and len(piece) > 3:
            found.append(id)
    return found[:OTHERS]
