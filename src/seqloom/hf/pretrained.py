"""What all models of seqloom share as models of transformers: how they are built, loaded and saved."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from seqloom.core.arguments import describe_value
from seqloom.core.extras import Extras, add_statistics
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig
from seqloom.hf.config import SeqloomConfig
from seqloom.hf.strict import StrictlyLoaded


class SeqloomPreTrainedModel(StrictlyLoaded, ABC):
    """A model of seqloom, `model`, inside of one of transformers.

    ValueError where the settings are of a kind of model that this class is not for.
    """

    config_class = SeqloomConfig
    base_model_prefix = "model"
    _no_split_modules: ClassVar = ["Block"]
    supports_gradient_checkpointing = True
    model: Model

    def __init__(self, config: SeqloomConfig) -> None:
        super().__init__(config)
        settings = config.of_model
        self._require_kind(settings)
        self.model = settings.build()
        self._recomputes = False
        self.statistics: dict[str, Tensor] = {}
        """sums of the passes since the last optimizer step"""
        self.post_init()

    @classmethod
    @abstractmethod
    def _require_kind(cls, settings: ModelConfig) -> None:
        """Raises ValueError unless this class is for such a model."""

    @classmethod
    def of(cls, model: Model, **settings: Any) -> Self:
        """The same model, with the same parameters; `settings` are those of a config of transformers.

        TypeError unless it is a model of seqloom, ValueError where this class is not for its kind.
        """
        if not isinstance(model, Model):
            raise TypeError(f"model is one that seqloom.decoder or seqloom.load gives, not {describe_value(model)}")
        cls._require_kind(model.config)
        tokenizer = model.tokenizer
        if tokenizer is not None:
            for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
                settings.setdefault(name, tokenizer.eos)
        wrapper = cls(SeqloomConfig(model.config.model_dump(mode="json"), **settings))
        wrapper.model = model
        wrapper.train(model.training)
        return wrapper

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether layers are computed again in the backward; transformers sets it."""
        return self._recomputes

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, on: bool) -> None:
        self.model.recompute_layers(on)
        self._recomputes = on

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: a model of seqloom is built with its initial weights."""

    def get_input_embeddings(self) -> nn.Module:
        """The embedding of the tokens."""
        token: nn.Module = self.model.token  # type: ignore[assignment]  # every kind that is wrapped has one
        return token

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Not supported: ValueError."""
        raise ValueError("the vocabulary of a model of seqloom is fixed: train one with another data.vocab")

    def get_output_embeddings(self) -> nn.Module | None:
        """The output layer."""
        head: nn.Module = self.model.head  # type: ignore[assignment]  # every kind that is wrapped has one
        return head

    def resize_token_embeddings(self, *args: Any, **settings: Any) -> nn.Module:
        """Not supported: ValueError."""
        raise ValueError("the vocabulary of a model of seqloom is fixed: train one with another data.vocab")

    def with_extras(self, loss: Tensor, extras: Extras) -> Tensor:
        """The loss, and the layers' auxiliary losses by their weights, as in seqloom's own training.

        Keeps the pass's statistics for `AfterUpdate`.
        """
        weights = self.model.loss_weights
        for name, value in extras.losses.items():
            loss = loss + weights.get(name, 1.0) * value
        if self.training:
            self.statistics = add_statistics(self.statistics, extras.statistics)
        return loss


def require_ids(input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
    """The token ids. ValueError where embeddings are given in their place, or nothing is."""
    if inputs_embeds is not None:
        raise ValueError("a model of seqloom reads token ids: give input_ids in place of inputs_embeds")
    if input_ids is None:
        raise ValueError("input_ids are missing")
    return input_ids


def refuse_outputs(others: dict[str, Any]) -> None:
    """Raises ValueError for outputs that the models do not give, which would be missing without a word."""
    for name in ("output_hidden_states", "output_attentions"):
        if others.get(name):
            raise ValueError(f"{name} is not built: model.exits of seqloom gives the stream after each layer")
