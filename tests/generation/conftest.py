"""Tiny decoders and a stand-in for the tokenizer."""

import codecs
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from seqloom.models.decoder import Decoder, DecoderConfig


class Letters:
    """Eleven byte strings; é takes two tokens, the cat too. `<eos>` is 0."""

    eos = 0
    table = (b"", b"a", b"b", b"c", b"d", b" ", b"\xc3", b"\xa9", b"ab", b"\xf0\x9f", b"\x90\x88")

    def encode(self, text: str) -> list[int]:
        rest, ids = text.encode(), []
        while rest:
            id = max((i for i, token in enumerate(self.table) if i and rest.startswith(token)), key=self._length)
            ids.append(id)
            rest = rest[self._length(id) :]
        return ids

    def decode(self, ids: list[int]) -> str:
        return b"".join(self.table[id] for id in ids).decode("utf-8", "replace")

    def stream(self, after: Sequence[int] = ()) -> "LettersStream":
        return LettersStream(self.table)

    def _length(self, id: int) -> int:
        return len(self.table[id])


class LettersStream:
    def __init__(self, table: tuple[bytes, ...]) -> None:
        self.table = table
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, id: int) -> str:
        return self.decoder.decode(self.table[id])

    def finish(self) -> str:
        return self.decoder.decode(b"", final=True)


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def decoder() -> Callable[..., Decoder]:
    def build(mixer: Any = "she", **settings: Any) -> Decoder:
        torch.manual_seed(7)
        values = {"vocab": 11, "dim": 8, "depth": 2, "context": 6, "ffn": 16, "dropout": 0.0, "position": "none"}
        mixer = {"kind": mixer} if isinstance(mixer, str) else mixer
        return Decoder(DecoderConfig(**{**values, "std": 0.5, "mixer": mixer, **settings})).double()

    return build


@pytest.fixture
def windowed() -> Any:
    """A decoder whose mixer cannot read on from a state: attention that says so, and refuses `start`."""
    from typing import ClassVar, Literal

    from seqloom.core.layer import Layer
    from seqloom.core.mixer import Traits
    from seqloom.core.mixer_config import MixerConfig
    from seqloom.mixers.attention.attention import Attention, AttentionConfig

    class Whole(MixerConfig):
        kind: Literal["whole"] = "whole"
        traits: ClassVar = Traits(causal="always", streams=False, state="none")

        def make(self, layer: Layer) -> Attention:
            mixer = Attention(AttentionConfig(heads=2), layer)
            mixer.traits = self.traits  # type: ignore[misc]
            mixer.start = mixer.extend = mixer.step = None  # type: ignore[assignment, method-assign]
            return mixer

    return Whole()
