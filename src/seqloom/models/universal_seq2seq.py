"""A Universal Transformer that translates: an encoder-decoder whose decoder is one block, applied T times.

    s = norm(encoder(source))                                      one block as well with `encoder.repeat`
    h_0 = embedding,   h_t = Block(h_{t-1} + P_i + S_t, s)         t = 1 … T = `depth`; i: the position of a token

`universal` says what P and S are, and what `halt` does; `translator` has what is around it. The block is self-mixing,
cross-attention to s, whose keys and values are projected once for all steps, and the transition, a feed-forward network
or two separable convolutions (`channel`). `seq2seq` with `encoder.repeat` repeats the encoder's block alone. Each side
halts by itself.

Source: Dehghani et al., Universal Transformers, arXiv:1807.03819, section 2.1 and Fig. 4. By default norms are before
the sublayers.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.extras import without_prefix
from seqloom.core.shapes import Ids, Keep
from seqloom.models.translator import Translator
from seqloom.models.translator_config import TranslatorConfig
from seqloom.models.universal import Repeated, RepeatedConfig


@final
class UniversalSeq2SeqConfig(RepeatedConfig, TranslatorConfig):
    """The sizes of a universal encoder-decoder; `mixer`, `depth` and `halt` are the decoder's."""

    kind: Literal["universal_seq2seq"] = "universal_seq2seq"
    ffn_kinds: ClassVar = ("ffn", "separable")

    @override
    def build(self, layers: int | None = None) -> "UniversalSeq2Seq":
        return UniversalSeq2Seq(self)


@final
class UniversalSeq2Seq(Repeated, Translator):
    """Predicts each token of a target from its source, by one block."""

    config: UniversalSeq2SeqConfig

    @torch.no_grad()
    def steps(
        self, ids: Ids, keep: Keep | None = None, source: Ids | None = None, source_keep: Keep | None = None
    ) -> Tensor:
        """The number of steps (B, T) after which each position of the target has halted.

        ValueError in a model without `halt`. `encoder.steps` gives the steps of the source.
        """
        if self.halting is None:
            raise ValueError("every position has all steps in this model: set model.halt=true")
        x, verb, _ = self._begin_target(ids, keep, source, source_keep)
        return self._steps(self.halting, x, verb)

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        super().after_update(step, statistics)
        self.encoder.after_update(step, without_prefix(statistics, "encoder"))
