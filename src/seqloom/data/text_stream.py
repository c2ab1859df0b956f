"""Decodes token ids that come one by one; the pieces, concatenated, are the text that all ids decode to at once."""

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import final

from typing_extensions import override

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""matches the name of a token for one byte, of a tokenizer with byte fallback"""


class TextStream(ABC):
    """Decodes ids one by one into whole characters."""

    @abstractmethod
    def push(self, id: int) -> str:
        """The text that this id completes, which may be empty."""

    @abstractmethod
    def finish(self) -> str:
        """The rest of the text, with U+FFFD for an incomplete last character.

        Afterwards the stream can be used again.
        """


@final
class ByteStream(TextStream):
    """The stream of a byte-level tokenizer; it holds back the bytes of an incomplete character."""

    def __init__(self, token: Callable[[int], bytes]) -> None:
        self._token = token
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @override
    def push(self, id: int) -> str:
        return self._decoder.decode(self._token(id))

    @override
    def finish(self) -> str:
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


@final
class PrefixStream(TextStream):
    """The stream of any other tokenizer: the text of an id is what it adds to the text of the ids before it.

    text(id) = decode(window + id)[len(decode(window)):], where the window holds the ids of the last piece. An id is
    held back while it adds nothing, is the token of a byte, or ends in U+FFFD, which is an incomplete character. Ids in
    `silent` have no text. `after` are the ids of the text that the stream continues, which are the first window.
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
        text = self._new_text()
        if not text or text.endswith("\ufffd"):
            return ""
        self._window, self._waiting = self._waiting, []
        return text

    @override
    def finish(self) -> str:
        text = self._new_text()
        self._window, self._waiting = [], []
        return text

    def _new_text(self) -> str:
        return self._decode([*self._window, *self._waiting])[len(self._decode(self._window)) :]
