"""A decoder of seqloom as `AutoModelForCausalLM`: forward, generate with a cache over its state, Trainer."""

from typing import Any, final

from torch import Tensor
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple

from seqloom.core.model import require_streams
from seqloom.core.model_config import ModelConfig
from seqloom.hf.cache import kept_positions, layer_of, may_reuse, no_state, state_cache
from seqloom.hf.generation import SeqloomGeneration
from seqloom.hf.pretrained import refuse_outputs, require_ids

KINDS = ("decoder", "universal")


@final
class SeqloomForCausalLM(SeqloomGeneration):
    """Predicts the next token at every position."""

    @classmethod
    def _require_kind(cls, settings: ModelConfig) -> None:
        if settings.kind not in KINDS:
            raise ValueError(f"a model of kind {settings.kind} is none of {', '.join(KINDS)}: it has no causal wrapper")

    @can_return_tuple  # type: ignore[untyped-decorator]  # transformers has no types for it
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """Logits (B, T, W), or of the last `logits_to_keep` positions, and the loss where there are labels.

        `attention_mask` (B, positions) is 0 at padding, which stands before the tokens; without a cache also after.
        With `use_cache`, by default where there are no labels and the mode is evaluation, the state after the last
        position is in `past_key_values`; a given cache continues.
        """
        refuse_outputs(others)
        ids = require_ids(input_ids, inputs_embeds)
        if use_cache is None:
            use_cache = labels is None and not self.training
        if past_key_values is None and not use_cache:
            return self._read_whole(ids, attention_mask, labels, logits_to_keep, others)
        return self._read_on(ids, attention_mask, past_key_values, labels, logits_to_keep, others)

    def _read_whole(
        self, ids: Tensor, mask: Tensor | None, labels: Tensor | None, logits_to_keep: int | Tensor, others: Any
    ) -> CausalLMOutputWithPast:
        keep = kept_positions(mask, ids.shape[1], padded_right=True)
        x, extras = self.model.features_with_extras(ids, keep)
        logits, loss = self._logits(x, keep, labels, logits_to_keep, others)
        if loss is not None:
            loss = self.with_extras(loss, extras)
        return CausalLMOutputWithPast(loss=loss, logits=logits)

    def _read_on(
        self,
        ids: Tensor,
        mask: Tensor | None,
        cache: Cache | None,
        labels: Tensor | None,
        logits_to_keep: int | Tensor,
        others: Any,
    ) -> CausalLMOutputWithPast:
        require_streams(self.model, "generate with a cache (set use_cache=False)")
        cache = state_cache(self.model) if cache is None else cache
        layer = layer_of(cache)
        layer.require_of(self.model)
        B, T = ids.shape
        keep = kept_positions(mask, T, padded_right=False)
        state = no_state(self.model, B) if layer.state is None else layer.state
        if T == 1 and keep is None and layer.state is not None and labels is None:
            token_logits, after = self.model.step(ids[:, 0], state, reuse=may_reuse(state.extra["length"]))
            layer.take(self.model, after, 1)
            return CausalLMOutputWithPast(logits=token_logits[:, None], past_key_values=cache)
        x, after = self.model.read(ids, state, keep)
        layer.take(self.model, after, T)
        logits, loss = self._logits(x, keep, labels, logits_to_keep, others)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)

    def _logits(
        self, x: Tensor, keep: Tensor | None, labels: Tensor | None, logits_to_keep: int | Tensor, others: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of the asked positions of features x (B, T, D), and the mean loss of the labels, in nats."""
        if labels is None:
            wanted = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            return self.model.logits(x[:, wanted], None if keep is None else keep[:, wanted]), None
        logits = self.model.logits(x, keep)
        arguments = {name: value for name, value in others.items() if name == "num_items_in_batch"}
        loss: Tensor = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **arguments)
        return logits, loss
