"""Token ids decoded as they arrive: whole characters only, up to a stop string.

The text ends where the first stop string is complete, read character by character; where several end at the same
character, the longest counts. So the result does not depend on where tokens end. Text that may be the beginning of a
stop string is held back until that is known.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Protocol, final

from seqloom.core.arguments import describe_value
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


@final
class TextCutter:
    """The text of ids that arrive one by one and continue the text of the ids `after`, until a stop string."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), after: Sequence[int] = ()) -> None:
        self._stream = tokenizer.stream(after)
        self._stop = stop
        self._held = ""
        """text that may be the beginning of a stop string"""
        self.ended = False
        """whether a stop string is complete"""

    def push(self, id: int) -> str:
        """The text that is certain after this id; often none."""
        return self._cut(self._stream.push(id))

    def finish(self) -> str:
        """The rest at the end."""
        rest = self._cut(self._stream.finish())
        return rest if self.ended else rest + self._held

    def _cut(self, text: str) -> str:
        """The text so far that cannot be the beginning of a stop string, without what was given before."""
        text = self._held + text
        starts = ((string, text.find(string)) for string in self._stop)
        occurrences = [(start + len(string), start) for string, start in starts if start >= 0]
        if occurrences:
            _, start = min(occurrences)  # the earliest end; of equal ends the earliest start
            self.ended = True
            return text[:start]
        released = len(text) - max((_overlap(text, string) for string in self._stop), default=0)
        self._held = text[released:]
        return text[:released]


def pieces(
    ids: Iterable[int], tokenizer: Tokenizer, stop: Sequence[str] = (), after: Sequence[int] = ()
) -> Generator[str, None, None]:
    """The text of `ids` in pieces, none of them empty, until the ids end or the first stop string is complete.

    The ids continue the text of the ids `after`, which is not repeated and not searched for stop strings.
    """
    cutter = TextCutter(tokenizer, stop, after)
    for id in ids:
        text = cutter.push(id)
        if text:
            yield text
        if cutter.ended:
            return
    rest = cutter.finish()
    if rest:
        yield rest


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a proper prefix of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


def check_stop(stop: Any) -> None:
    """Raises ValueError or TypeError unless stop is a list of non-empty strings."""
    if isinstance(stop, str):
        raise ValueError(f"stop is a list of strings: write [{stop!r}]")
    if not isinstance(stop, list | tuple) or not all(isinstance(string, str) for string in stop):
        raise TypeError(f"stop is a list of strings, not {describe_value(stop)} {stop!r}")
    for string in stop:
        require_utf8(string, f"the stop string {string!r}")
    if not all(stop):
        raise ValueError("stop holds an empty string, which every text begins with: leave it out")
