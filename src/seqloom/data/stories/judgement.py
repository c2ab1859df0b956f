"""Judges generated stories: how many sentences are of the grammar, and how many of these agree with the story so far.

A sentence ends at . ! or ?, with a closing quote if there is one, before a space and a capital letter or a quote. At
the end of the text only a full stop ends a sentence, since speech that ends with ?" may go on. A sentence is of the
grammar if some story contains exactly it. It agrees if its hero, pronouns, treasure, animals, food and places are those
that the story has introduced before; the order of the sentences is not judged.
"""

import re

from seqloom.data.stories.derivation import Choice
from seqloom.data.stories.grammar import DOMAINS, TEMPLATES
from seqloom.data.stories.reading import Scope, read

_END = re.compile(r'[.!?]"?(?=\s+["A-Z])|\.(?=\s*$)')


def _split(text: str) -> tuple[list[str], str]:
    """The complete sentences of a text, and the incomplete rest after them."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    return sentences, text[start:].strip()


def sentences(text: str) -> list[str]:
    """The sentences of `text` without the spaces between them; an incomplete last sentence is included."""
    complete, incomplete = _split(text)
    return [*complete, incomplete] if incomplete else complete


def _complete(text: str, cut: bool) -> list[str]:
    """The complete sentences of a text, without the first if the text begins inside it (`cut`)."""
    return _split(text)[0][1 if cut else 0 :]


def _fit(sentence: str, scope: Scope) -> tuple[str, Scope] | None:
    """The rule that a sentence is of and the scope after it; None where no sentence of the grammar fits the scope."""
    choices: list[Choice] = []
    for name, option in TEMPLATES:
        end = read(option.symbols, sentence, 0, {} if name == "opening" else scope, choices)
        if end is not None and end[0] == len(sentence):
            return name, end[1]
    return None


def is_sentence(text: str) -> bool:
    """Whether some story contains exactly this sentence."""
    return _fit(text, {}) is not None


def grammatical_share(text: str, *, cut: bool = False) -> tuple[int, int]:
    """(of the grammar, all): how many complete sentences of `text` are of the grammar, and how many there are.

    An incomplete last sentence does not count. With `cut`, `text` begins inside a sentence, which does not count
    either.
    """
    complete = _complete(text, cut)
    return sum(map(is_sentence, complete)), len(complete)


def agreement(text: str, *, cut: bool = False) -> tuple[int, int]:
    """(agreeing, all): how many sentences of the grammar in `text` agree with the story so far, and how many there are.

    An opening sentence begins a new story, in which nothing may be repeated before it is introduced. Before the first
    opening it is unknown what was introduced, and a first mention agrees. `cut` is as in `grammatical_share`.
    """
    scope: Scope = {}
    agreeing = grammatical = 0
    for sentence in filter(is_sentence, _complete(text, cut)):
        grammatical += 1
        fit = _fit(sentence, scope)
        if fit is not None:
            agreeing += 1
            name, scope = fit
            scope = {**dict.fromkeys(DOMAINS, ()), **scope} if name == "opening" else scope
    return agreeing, grammatical
