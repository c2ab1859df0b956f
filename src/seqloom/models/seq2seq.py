"""An encoder-decoder whose decoder's layers each have weights of their own; `translator` says what it computes."""

from typing import Literal, final

from typing_extensions import override

from seqloom.models.translator import Translator
from seqloom.models.translator_config import TranslatorConfig


@final
class Seq2SeqConfig(TranslatorConfig):
    """The sizes of an encoder-decoder and its mixers: `mixer` and `depth` are the decoder's."""

    kind: Literal["seq2seq"] = "seq2seq"

    @override
    def build(self, layers: int | None = None) -> "Seq2Seq":
        return Seq2Seq(self, layers)


@final
class Seq2Seq(Translator):
    """Predicts each token of a target from its source and from the tokens before it."""
