"""Text into token ids and back, without loss: byte-level byte-pair encoding.

Every text is a sequence of UTF-8 bytes, the 256 bytes are tokens, and the most frequent neighbours are merged until
the vocabulary is full. `<eos>` is id 0 and is never the encoding of any text: a literal "<eos>" is five characters.

Source: Sennrich et al., arXiv:1508.07909; byte-level and its word pattern as in GPT-2 (Radford et al. 2019), by the
`tokenizers` package. What differs: a merge must occur twice.
"""

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self, final

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from seqloom.core.files import read_text
from seqloom.data import cache
from seqloom.data.tokens import EOS

_EOS_TEXT = "<eos>"
SMALLEST = 257
"""The smallest vocabulary: 256 bytes and `<eos>`."""
MOST = 2**24
"""entries of a vocabulary at most"""
LARGEST = 64 << 20
"""bytes of a tokenizer.json at most"""


def require_vocab(vocab: int) -> None:
    """ValueError for a size that no vocabulary can have."""
    if not SMALLEST <= vocab <= MOST:
        least = f"at least {SMALLEST} (256 bytes and <eos>)"
        raise ValueError(f"vocab must be {least} and at most {MOST:,}, and is {vocab}")


@final
class Tokenizer:
    """A trained byte-level tokenizer. `vocab` is its real size; ids lie in [0, vocab); `eos` is 0."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        # not stored in tokenizer.json; without it a literal "<eos>" in a text would become id 0
        inner.encode_special_tokens = True
        self._inner = inner
        self.vocab: int = inner.get_vocab_size()
        self.eos = EOS
        self._bytes = _token_bytes(inner)

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int) -> Self:
        """Learns at most `vocab` tokens; fewer where `texts` repeat too little. See `require_vocab`."""
        require_vocab(vocab)
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab,
            min_frequency=2,
            special_tokens=[_EOS_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer)
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a tokenizer.json. FileNotFoundError where there is none; ValueError where it is broken or another's."""
        path = Path(path)
        try:
            text = read_text(path, LARGEST)
        except FileNotFoundError:
            message = f"{path}: there is no tokenizer there; a run's folder holds one as tokenizer.json"
            raise FileNotFoundError(message) from None
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package raises plain Exception
            raise ValueError(f"{path}: not a readable tokenizer ({str(error).partition(chr(10))[0]})") from error
        try:
            return cls(inner)
        except ValueError as error:
            raise ValueError(f"{path}: not a tokenizer of seqloom: {error}") from error

    def save(self, path: str | Path) -> None:
        """Writes tokenizer.json, whole or not at all; the `tokenizers` package reads it too."""
        cache.write(Path(path), self.json.encode())

    @property
    def json(self) -> str:
        """The whole tokenizer as the text of tokenizer.json."""
        return str(self._inner.to_str(pretty=True))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without `<eos>`. ValueError where the text has half a surrogate pair, thus no UTF-8."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, on all cores; see `encode`."""
        for text in texts:
            text.encode()  # raises UnicodeEncodeError, a ValueError, where the package would raise TypeError
        return [found.ids for found in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; `<eos>` is no text, and bytes that are not UTF-8 become U+FFFD. ValueError for other ids."""
        return b"".join(self.token(i) for i in ids).decode("utf-8", "replace")

    def token(self, id: int) -> bytes:
        """The bytes of one token; none for `<eos>`. ValueError outside [0, vocab)."""
        if not 0 <= id < self.vocab:
            raise ValueError(f"token id {id} is outside this tokenizer's vocabulary of {self.vocab}")
        return self._bytes[id]

    def stream(self) -> "TextStream":
        """A decoder for ids that come one by one."""
        return TextStream(self)


@final
class TextStream:
    """Decodes ids one by one into whole characters: bytes of an unfinished character wait for the next id."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, id: int) -> str:
        """The characters that this id completes; often none."""
        return self._decoder.decode(self._tokenizer.token(id))

    def finish(self) -> str:
        """What is left: U+FFFD where the last character never ended. The stream is then as new."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def _token_bytes(inner: tokenizers.Tokenizer) -> list[bytes]:
    """The bytes of every id. ValueError where the tokenizer is not byte-level or `<eos>` is not id 0."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # GPT-2 writes the other bytes from U+0100
    hidden = sorted(set(range(256)) - set(visible))
    byte = {chr(value): value for value in visible} | {chr(256 + n): value for n, value in enumerate(hidden)}
    vocab = inner.get_vocab()
    if vocab.get(_EOS_TEXT) != EOS:
        raise ValueError(f"{_EOS_TEXT} is not its id {EOS}")
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError("its ids have gaps")
    if not all(char in vocab for char in byte):
        raise ValueError("it is not byte-level: some bytes have no token")
    names = sorted((name for name in vocab if name != _EOS_TEXT), key=vocab.__getitem__)
    if odd := next((name for name in names if not all(char in byte for char in name)), None):
        raise ValueError(f"it is not byte-level: token {odd!r}")
    return [b"", *(bytes(byte[char] for char in name) for name in names)]
