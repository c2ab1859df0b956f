"""An encoder-decoder of seqloom as `AutoModelForSeq2SeqLM`: forward, generate with a cache over its state, Trainer.

Targets begin with the token that ends them. transformers names the source `input_ids`, the target `decoder_input_ids`.
"""

from typing import Any, ClassVar, final

from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from seqloom.core.model_config import ModelConfig
from seqloom.hf.cache import StateLayer, kept_positions, layer_of, may_reuse
from seqloom.hf.generation import SeqloomGeneration
from seqloom.hf.pretrained import refuse_outputs, require_ids
from seqloom.models.translator import Translator

KINDS = ("seq2seq", "universal_seq2seq")
UNLABELLED = -100
"""the label of a position without one"""


@final
class SourceEncoder(nn.Module):
    """The encoder as `generate` calls it, once for a source; it shares the model's weights and holds none."""

    main_input_name = "input_ids"

    def __init__(self, model: Translator) -> None:
        super().__init__()
        self.__dict__["model"] = model  # no submodule here: its weights would be saved a second time

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any) -> BaseModelOutput:
        """The encoder's stream (B, S, D) of sources (B, S)."""
        model: Translator = self.__dict__["model"]
        encoded, _ = model.encode(input_ids, kept_positions(attention_mask, input_ids.shape[1], padded_right=True))
        return BaseModelOutput(last_hidden_state=encoded)


@final
class SeqloomForSeq2SeqLM(SeqloomGeneration):
    """Predicts each token of a target from its source and from the tokens before it."""

    model: Translator
    _tied_weights_keys: ClassVar = None

    @classmethod
    def _require_kind(cls, settings: ModelConfig) -> None:
        if settings.kind not in KINDS:
            raise ValueError(f"a model of kind {settings.kind} is none of {', '.join(KINDS)}: it reads no source")

    def get_encoder(self, *others: Any, **settings: Any) -> nn.Module:
        """The encoder, by which `generate` reads a source."""
        return SourceEncoder(self.model)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The tokens before those of the labels (B, T), of which -100 are padding."""
        start = self.config.decoder_start_token_id
        if start is None:
            raise ValueError("targets begin with a token: wrap the model with decoder_start_token_id")
        return pad(labels.clamp(min=0)[:, :-1], (1, 0), value=start)

    @can_return_tuple  # type: ignore[untyped-decorator]  # transformers has no types for it
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        """Logits (B, T, W) of the target, and the mean loss in nats of the labels that are not -100.

        The source is `input_ids`, or `encoder_outputs` where it is read already; padding is 0 in `attention_mask`.
        Without `decoder_input_ids` the target is that of the labels. A given cache continues.
        """
        refuse_outputs(others)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("a target is missing: give decoder_input_ids or labels")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        keep = kept_positions(decoder_attention_mask, decoder_input_ids.shape[1], padded_right=past_key_values is None)
        if past_key_values is not None:
            layer = layer_of(past_key_values)
            return self._read_on(decoder_input_ids, keep, layer, encoder_outputs, attention_mask, past_key_values)
        if encoder_outputs is not None:
            state = self._begin(encoder_outputs, attention_mask)
            logits, _ = self.model.extend(decoder_input_ids, state, keep)
            return Seq2SeqLMOutput(logits=logits)
        source = require_ids(input_ids, inputs_embeds)
        source_keep = kept_positions(attention_mask, source.shape[1], padded_right=True)
        logits, extras = self.model.forward_with_extras(decoder_input_ids, keep, source, source_keep)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=UNLABELLED)
            loss = self.with_extras(loss, extras)
        return Seq2SeqLMOutput(loss=loss, logits=logits)

    def _read_on(
        self,
        ids: Tensor,
        keep: Tensor | None,
        layer: StateLayer,
        encoder_outputs: Any,
        source_mask: Tensor | None,
        cache: Cache,
    ) -> Seq2SeqLMOutput:
        """The logits of a piece of the target that follows the cache, and the cache after it."""
        layer.require_of(self.model)
        if layer.state is None:
            if encoder_outputs is None:
                raise ValueError("an empty cache follows no source: give encoder_outputs")
            state = self._begin(encoder_outputs, source_mask)
            logits, after = self.model.extend(ids, state, keep)
        elif ids.shape[1] == 1 and keep is None:
            token_logits, after = self.model.step(ids[:, 0], layer.state, reuse=may_reuse(layer.state.extra["length"]))
            logits = token_logits[:, None]
        else:
            logits, after = self.model.extend(ids, layer.state, keep)
        layer.take(self.model, after, ids.shape[1])
        return Seq2SeqLMOutput(logits=logits, past_key_values=cache)

    def _begin(self, encoder_outputs: Any, mask: Tensor | None) -> Any:
        """The state before a target, given what the encoder made of its source."""
        encoded = encoder_outputs[0]
        return self.model.begin_encoded(encoded, kept_positions(mask, encoded.shape[1], padded_right=True))
