"""Text out of token ids that come one by one; all pieces together are exactly what the ids decode to at once."""

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import final

from typing_extensions import override

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""the name of a token that stands for one byte, where a tokenizer falls back to bytes"""


class TextStream(ABC):
    """Decodes ids one by one into whole characters."""

    @abstractmethod
    def push(self, id: int) -> str:
        """The characters that this id completes; often none."""

    @abstractmethod
    def finish(self) -> str:
        """The rest; U+FFFD where the last character never ended. The stream can then be used again."""


@final
class ByteStream(TextStream):
    """The stream of a byte-level tokenizer: bytes of an unfinished character wait for the next id."""

    def __init__(self, token: Callable[[int], bytes]) -> None:
        self._token = token
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @override
    def push(self, id: int) -> str:
        return self._decoder.decode(self._token(id))

    @override
    def finish(self) -> str:
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


@final
class PrefixStream(TextStream):
    """The stream of any other tokenizer, where a piece is what an id adds to the text of the ids before it.

    text(id) = decode(window + id)[len(decode(window)):], where the window is the ids of the last piece. An id waits
    where it adds nothing yet, stands for a byte, or ends in U+FFFD: in the middle of a character. `silent` ids are
    no text. `after` are the ids of the text that the stream continues: the first window.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        name: Callable[[int], str],
        silent: Container[int],
        after: Sequence[int] = (),
    ) -> None:
        self._decode = decode
        self._name = name
        self._silent = silent
        self._window = [id for id in after if id not in silent]
        self._waiting: list[int] = []

    @override
    def push(self, id: int) -> str:
        name = self._name(id)
        if id in self._silent:
            return ""
        self._waiting.append(id)
        if BYTE.fullmatch(name):
            return ""
        text = self._added()
        if not text or text.endswith("\ufffd"):
            return ""
        self._window, self._waiting = self._waiting, []
        return text

    @override
    def finish(self) -> str:
        rest = self._added()
        self._window, self._waiting = [], []
        return rest

    def _added(self) -> str:
        return self._decode([*self._window, *self._waiting])[len(self._decode(self._window)) :]
