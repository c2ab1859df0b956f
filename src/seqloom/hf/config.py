"""The config.json of transformers for a model of seqloom: its `settings`, and the sizes that transformers reads."""

from typing import Any, final

from transformers import PreTrainedConfig

from seqloom.core.layered import LayeredConfig
from seqloom.core.model_config import ModelConfig
from seqloom.models.kinds import model_config
from seqloom.runs.layer_source import known_code


@final
class SeqloomConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers has no types for it
    """Settings of a model of any kind, with sizes under the names that transformers asks for.

    `settings` are those of `model` in a run's config.json. ValueError for settings that describe no model.
    """

    model_type = "seqloom"

    def __init__(self, settings: dict[str, Any] | None = None, **others: Any) -> None:
        self.settings = settings or {}
        if settings:  # transformers also makes a config without any, to compare with
            config = self.of_model
            self.vocab_size = config.vocab
            self.max_position_embeddings = config.context
            if isinstance(config, LayeredConfig):
                self.hidden_size = config.dim
                self.num_hidden_layers = config.depth
            if config.objective == "pairs":
                others.setdefault("is_encoder_decoder", True)
                others.setdefault("decoder_start_token_id", others.get("eos_token_id"))
            labels = getattr(config, "labels", ())
            if labels:
                others.setdefault("id2label", dict(enumerate(labels)))
                others.setdefault("label2id", {label: number for number, label in enumerate(labels)})
        others["tie_word_embeddings"] = False  # a tied head holds no weights of its own
        super().__init__(**others)

    @property
    def of_model(self) -> ModelConfig:
        """The settings as those of a model of seqloom. ValueError where they describe none."""
        with known_code():
            return model_config(self.settings)
