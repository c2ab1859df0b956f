"""Token ids decoded as they arrive: whole characters only, up to a stop string.

The text ends where the first stop string is complete, read character by character; where several end at the same
character, the longest counts. So the result does not depend on where tokens end. Text that may be the beginning of a
stop string is held back until that is known.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from seqloom.core.arguments import described
from seqloom.data.tokenizer import require_utf8


class TextStream(Protocol):
    """Decodes ids one by one."""

    def push(self, id: int, /) -> str:
        """The whole characters that this id completes; often none."""

    def finish(self) -> str:
        """The rest at the end."""


class Tokenizer(Protocol):
    """The methods of a tokenizer that generation uses."""

    eos: int

    def encode(self, text: str, /) -> list[int]:
        """The ids of a text."""

    def stream(self, after: Sequence[int] = (), /) -> TextStream:
        """A decoder for ids that arrive one by one and continue the text of the ids `after`."""


def pieces(
    ids: Iterable[int], tokenizer: Tokenizer, stop: Sequence[str] = (), after: Sequence[int] = ()
) -> Generator[str, None, None]:
    """The text of `ids` in pieces, none of them empty, until the ids end or the first stop string is complete.

    The ids continue the text of the ids `after`, which is not repeated and not searched for stop strings.
    """
    text_so_far = ""
    for text in _decoded(ids, tokenizer, after):
        text_so_far += text
        starts = ((string, text_so_far.find(string)) for string in stop)
        occurrences = [(start + len(string), start) for string, start in starts if start >= 0]
        if occurrences:
            _, start = min(occurrences)  # the earliest end; of equal ends the earliest start
            if start:
                yield text_so_far[:start]
            return
        held_back = max((_overlap(text_so_far, string) for string in stop), default=0)
        released = len(text_so_far) - held_back
        if released:
            yield text_so_far[:released]
        text_so_far = text_so_far[released:]
    if text_so_far:
        yield text_so_far


def _decoded(ids: Iterable[int], tokenizer: Tokenizer, after: Sequence[int]) -> Iterator[str]:
    """The text that each id completes, often empty, and the rest at the end."""
    stream = tokenizer.stream(after)
    for id in ids:
        yield stream.push(id)
    yield stream.finish()


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a proper prefix of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


def check_stop(stop: Any) -> None:
    """Raises ValueError or TypeError unless stop is a list of non-empty strings."""
    if isinstance(stop, str):
        raise ValueError(f"stop is a list of strings: write [{stop!r}]")
    if not isinstance(stop, list | tuple) or not all(isinstance(string, str) for string in stop):
        raise TypeError(f"stop is a list of strings, not {described(stop)} {stop!r}")
    for string in stop:
        require_utf8(string, f"the stop string {string!r}")
    if not all(stop):
        raise ValueError("stop holds an empty string, which every text begins with: leave it out")
