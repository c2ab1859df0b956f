"""Tokenizers: text into token ids and back. Those that are trained here are byte-level BPE, which loses nothing.

A text is a sequence of UTF-8 bytes; the 256 bytes are tokens, and the most frequent pairs of neighbors are merged until
the vocabulary is full. `<eos>` is id 0 and never part of an encoded text: a literal "<eos>" in it is five characters.

A tokenizer of characters merges only the bytes of one character.

Other tokenizers (`given_tokenizer`) may be of any kind that the `tokenizers` package reads, with an end token of any
name and id.

Source: Sennrich et al., arXiv:1508.07909; byte-level and its word pattern as in GPT-2 (Radford et al. 2019), by the
`tokenizers` package. What differs: a merge must occur twice, and words of more than 1,000 characters are counted in
parts.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from seqloom.core.files import read_text
from seqloom.core.progress import Show, show_nothing
from seqloom.data import cache
from seqloom.data.config import SMALLEST
from seqloom.data.merge_process import learn_merges
from seqloom.data.merges import EOS, byte_level
from seqloom.data.seams import seams_of
from seqloom.data.text_stream import ByteStream, PrefixStream, TextStream

END_TOKENS = (EOS, "</s>", "<|endoftext|>", "<|end_of_text|>", "<|eos|>", "[EOS]", "<|im_end|>", "[SEP]")
"""usual names of end tokens, in the order in which they are looked for"""
MOST = 2**24
"""the most entries of a vocabulary"""
LARGEST = 64 << 20
"""the most bytes of a tokenizer.json"""


def require_vocab(vocab: int) -> None:
    """Raises ValueError unless a vocabulary can have `vocab` entries."""
    if not SMALLEST <= vocab <= MOST:
        least = f"at least {SMALLEST} (256 bytes and <eos>)"
        raise ValueError(f"vocab must be {least} and at most {MOST:,}, and is {vocab}")


@final
class Tokenizer:
    """A tokenizer with an end token. Ids lie in [0, vocab); `eos` is the id that follows every document.

    `end` names the end token; by default it is the special token that the tokenizer's post-processor puts after a text,
    or the first of `END_TOKENS` that is a special token. ValueError where there is none.
    """

    def __init__(self, inner: tokenizers.Tokenizer, end: str | None = None) -> None:
        # options that tokenizer.json does not store or that would change a text; without the first, a literal "<eos>"
        # in a text would become the id of the end token
        inner.encode_special_tokens = True
        inner.no_truncation()
        inner.no_padding()
        vocab = inner.get_vocab()
        configured_end = _end_token(_form(inner))
        end = configured_end if end is None else end
        if end is None:
            raise ValueError(f"it has no end token (looked for {', '.join(END_TOKENS)}, and what follows a text)")
        if end not in vocab:
            raise ValueError(f"its end token {end!r} is not in its vocabulary")
        if end != configured_end:  # so that tokenizer.json contains it
            inner.post_processor = processors.TemplateProcessing(single=["$A", end], special_tokens=[(end, vocab[end])])
        self._inner = inner
        self._end = end
        self.eos: int = vocab[end]
        self.vocab: int = max(vocab.values()) + 1
        if self.vocab > MOST:
            raise ValueError(f"its largest id is {self.vocab - 1:,}, and a vocabulary has {MOST:,} entries at most")
        form = _form(inner)
        self._silent = {token["id"] for token in form["added_tokens"] if token["special"]} | {self.eos}
        self._bytes = _token_bytes(form, vocab, self._silent)
        self.unknown: int | None = _unknown_id(form["model"], vocab)
        """the id of the unknown token, if there is one; the text that it replaces is lost"""
        self.of_words: bool = form["model"]["type"] == "WordLevel"
        """whether the tokens are words of a list, and `unknown`"""
        self.seams = seams_of(inner, form)
        """where a text may be cut into `pieces` whose ids, concatenated, are its ids; None where that is not known"""

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int, *, show: Show = show_nothing) -> Self:
        """Learns a vocabulary of `vocab` entries, or fewer where no pair is frequent enough.

        Words of more than 1,000 characters are counted in parts (`merges`). Ctrl-C ends it at any time. Raises as
        `require_vocab` and `merge_process.learn_merges` do.
        """
        require_vocab(vocab)
        return cls(learn_merges(texts, vocab, show=show))

    @classmethod
    def train_characters(cls, texts: Iterable[str], vocab: int | None = None) -> Self:
        """One token for each character of `texts`, or for the most frequent ones where `vocab` has no room for all.

        Any other character becomes the tokens of its bytes, so that nothing is lost. The 256 bytes are tokens, and so
        are the first two and three bytes of longer characters, which merges go through. Raises as `require_vocab` does.
        """
        if vocab is not None:
            require_vocab(vocab)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        ids = _byte_ids()
        names = {byte: char for char, byte in _byte_of().items()}
        merges: list[tuple[str, str]] = []
        for character in sorted(counts, key=lambda character: (-counts[character], character)):
            name = "".join(names[byte] for byte in character.encode())
            new = [name[:size] for size in range(2, len(name) + 1) if name[:size] not in ids]
            if vocab is None or len(ids) + len(new) <= vocab:
                merges += [(token[:-1], token[-1]) for token in new]
                ids |= {token: len(ids) + number for number, token in enumerate(new)}
        return cls._of_merges(ids, merges)

    @classmethod
    def of_bytes(cls) -> Self:
        """One token for each byte, without merges: `<eos>` is id 0, byte n is id n + 1."""
        return cls._of_merges(_byte_ids(), [])

    @classmethod
    def _of_merges(cls, ids: dict[str, int], merges: list[tuple[str, str]]) -> Self:
        inner = byte_level(models.BPE(ids, merges))
        inner.add_special_tokens([EOS])
        return cls(inner)

    @classmethod
    def of_letters(cls, alphabet: str) -> Self:
        """One token for each letter of an alphabet, in its order, after `<eos>`, id 0.

        Texts may have no other letters.
        """
        vocab = {EOS: 0, **{letter: number for number, letter in enumerate(alphabet, 1)}}
        inner = tokenizers.Tokenizer(models.WordLevel(vocab))
        inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
        inner.decoder = decoders.Fuse()
        inner.add_special_tokens([EOS])
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path, end: str | None = None) -> Self:
        """Reads a tokenizer.json. FileNotFoundError where it is missing; ValueError where it is damaged or unusable."""
        path = Path(path)
        try:
            text = read_text(path, LARGEST)
        except FileNotFoundError:
            message = f"{path}: there is no tokenizer there; a run's folder holds one as tokenizer.json"
            raise FileNotFoundError(message) from None
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the tokenizers package raises plain Exception
            raise ValueError(f"{path}: not a readable tokenizer ({str(error).partition(chr(10))[0]})") from error
        try:
            return cls(inner, end)
        except ValueError as error:
            raise ValueError(f"{path}: not a tokenizer that can be used: {error}") from error

    def save(self, path: str | Path) -> None:
        """Writes tokenizer.json, which the `tokenizers` package can read, completely or not at all."""
        cache.write(Path(path), self.json.encode())

    @cached_property
    def json(self) -> str:
        """The tokenizer as the text of its tokenizer.json."""
        return str(self._inner.to_str(pretty=True))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without `eos`. ValueError where the text has half a surrogate pair, so is not UTF-8."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, on all cores; see `encode`."""
        for text in texts:
            require_utf8(text)  # where the package would raise TypeError
        rows = self._ids(texts)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            if self.eos in row:  # the text holds the end token's name, read as that token
                rows[number] = [id for part in self._ids(self._split_end_names(text)) for id in part if id != self.eos]
        return rows

    def _split_end_names(self, text: str) -> list[str]:
        """The text, cut after the first letter of every occurrence of the end token's name, so that no part has it."""
        first, *others = text.split(self._end)
        parts = [first]
        for other in others:
            parts[-1] += self._end[:1]
            parts.append(self._end[1:] + other)
        return parts

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            return [encoded.ids for encoded in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]
        except Exception as error:  # the package raises plain Exception
            raise ValueError(f"the tokenizer cannot read the text: {str(error).partition(chr(10))[0]}") from error

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without special tokens, with U+FFFD for invalid UTF-8. ValueError for ids out of range.

        A tokenizer that is not byte-level may lose parts of a text, such as case, spaces or unknown words.
        """
        ids = [self._check_id(id) for id in ids]
        if self._bytes is not None:
            return b"".join(self._bytes[id] for id in ids).decode("utf-8", "replace")
        return self._text([id for id in ids if id not in self._silent])

    @property
    def names(self) -> list[str]:
        """The name of each id, as tokenizer.json has it; empty for an id without a token."""
        return [self._inner.id_to_token(id) or "" for id in range(self.vocab)]

    def stream(self, after: Sequence[int] = ()) -> TextStream:
        """A decoder for ids that come one by one and follow the ids `after`.

        Without `after` they begin a text, whose first space most tokenizers that are not byte-level drop.
        """
        if self._bytes is not None:
            table = self._bytes
            return ByteStream(lambda id: table[self._check_id(id)])
        return PrefixStream(self._text, self._name, self._silent, after)

    def _text(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=False))

    def _name(self, id: int) -> str:
        return self._inner.id_to_token(self._check_id(id)) or ""

    def _check_id(self, id: int) -> int:
        """The id. ValueError where it is out of range."""
        if not 0 <= id < self.vocab:
            raise ValueError(f"token id {id} is outside this tokenizer's vocabulary of {self.vocab}")
        return id


def require_utf8(text: str, name: str = "the text") -> None:
    """Raises ValueError for half a surrogate pair, which is also how Python reads a byte that is no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        character = text[error.start]
        raw = f", the byte 0x{ord(character) - 0xDC00:02x}" if "\udc80" <= character <= "\udcff" else ""
        raise ValueError(
            f"{name} is not UTF-8: its character {error.start + 1:,} is half a surrogate pair{raw}; write it in UTF-8"
        ) from None


def _form(inner: tokenizers.Tokenizer) -> dict[str, Any]:
    """The contents of tokenizer.json."""
    form: dict[str, Any] = json.loads(inner.to_str())
    return form


def _end_token(form: dict[str, Any]) -> str | None:
    """The end token of a tokenizer.json: what its post-processor puts after a text, or a usual name; None without."""
    processor = form["post_processor"] or {}
    for step in processor.get("processors", [processor]):
        last = step["single"][-1] if step.get("type") == "TemplateProcessing" and step["single"] else {}
        if "SpecialToken" in last:
            return str(last["SpecialToken"]["id"])
    special = {token["content"] for token in form["added_tokens"] if token["special"]}
    return next((name for name in END_TOKENS if name in special), None)


def _unknown_id(model: dict[str, Any], vocab: dict[str, int]) -> int | None:
    """The id of the unknown token of a tokenizer.json's model: Unigram stores its id, other models its name."""
    name = model.get("unk_token")
    id: int | None = model.get("unk_id") if name is None else vocab.get(name)
    return id


def _byte_of() -> dict[str, int]:
    """The byte of each character of GPT-2's byte-level alphabet; bytes that are not printable begin at U+0100."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    return {chr(value): value for value in visible} | {chr(256 + n): value for n, value in enumerate(hidden)}


def _byte_ids() -> dict[str, int]:
    """The ids of `<eos>` and of the 256 bytes, with which every vocabulary without trained merges starts."""
    return {EOS: 0, **{char: byte + 1 for char, byte in _byte_of().items()}}


def _token_bytes(form: dict[str, Any], vocab: dict[str, int], silent: set[int]) -> list[bytes] | None:
    """The bytes of every id of a byte-level tokenizer; None for others. ValueError where some byte has no token."""
    if (form["decoder"] or {}).get("type") != "ByteLevel":
        return None
    byte_of = _byte_of()
    if not all(char in vocab for char in byte_of):
        raise ValueError("it is byte-level, and some bytes have no token: text would be lost")
    added_tokens = {token["id"]: token["content"] for token in form["added_tokens"]}
    table = [b""] * (max(vocab.values()) + 1)
    for name, id in vocab.items():
        if id in silent:
            continue
        if id in added_tokens:
            table[id] = name.encode()
        elif all(char in byte_of for char in name):
            table[id] = bytes(byte_of[char] for char in name)
        else:
            raise ValueError(f"it is byte-level, and its token {name!r} is not")
    return table
