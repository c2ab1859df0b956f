"""How much of a written text is sentences of the grammar, and how much of that agrees with the story so far.

A sentence ends at . ! or ?, with the closing quote, where a space and a capital or a quote follow. The end of the text
ends a sentence after a full stop only: a last ?" may be speech that goes on. A sentence is one of the grammar where
some story contains it, letter for letter. It agrees where it has the hero, pronouns, treasure, animals, food and places
that the story so far has introduced; the order of the sentences is not judged.
"""

import re

from seqloom.data.stories.derivation import Choice
from seqloom.data.stories.grammar import DOMAINS, TEMPLATES
from seqloom.data.stories.reading import Scope, read

_END = re.compile(r'[.!?]"?(?=\s+["A-Z])|\.(?=\s*$)')


def _split(text: str) -> tuple[list[str], str]:
    """The complete sentences of a text, and what follows the last of them."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    return sentences, text[start:].strip()


def sentences(text: str) -> list[str]:
    """The sentences of `text` without the space between them; a last one without its end is included as it stands."""
    whole, rest = _split(text)
    return [*whole, rest] if rest else whole


def _complete(text: str, cut: bool) -> list[str]:
    return _split(text)[0][1 if cut else 0 :]


def _fit(sentence: str, scope: Scope) -> tuple[str, Scope] | None:
    choices: list[Choice] = []
    for name, option in TEMPLATES:
        end = read(option.symbols, sentence, 0, {} if name == "opening" else scope, choices)
        if end is not None and end[0] == len(sentence):
            return name, end[1]
    return None


def is_sentence(text: str) -> bool:
    """Whether some story contains exactly this one sentence; repetitions inside it must agree with each other."""
    return _fit(text, {}) is not None


def grammatical_share(text: str, *, cut: bool = False) -> tuple[int, int]:
    """Sentences of the grammar among the complete sentences of `text`, and the number of these.

    A last sentence without its end does not count; `cut` says that `text` begins inside a sentence, and leaves that
    first one out.
    """
    complete = _complete(text, cut)
    return sum(map(is_sentence, complete)), len(complete)


def agreement(text: str, *, cut: bool = False) -> tuple[int, int]:
    """(agreeing, all): how many sentences of the grammar in `text` agree with the story so far, and how many there are.

    An opening begins a new story, in which nothing may be repeated before it is introduced. Before the first opening of
    `text`, what was introduced is unknown, and a first mention agrees. `cut` is as in `grammatical_share`.
    """
    scope: Scope = {}
    agreed = known = 0
    for sentence in filter(is_sentence, _complete(text, cut)):
        known += 1
        fit = _fit(sentence, scope)
        if fit is not None:
            agreed += 1
            name, scope = fit
            scope = {**dict.fromkeys(DOMAINS, ()), **scope} if name == "opening" else scope
    return agreed, known
