"""The settings in a config.json of transformers, each of which is used, harmless, or an error that names it.

A setting that seqloom does not know may change what the model computes, so that it cannot be passed over.
"""

from collections.abc import Mapping
from typing import Any, final

HARMLESS = frozenset(
    {
        *("_name_or_path", "architectures", "auto_map", "model_type", "problem_type", "task_specific_params"),
        *("dtype", "torch_dtype", "transformers_version", "pretraining_tp", "initializer_range", "max_window_layers"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "id2label", "label2id", "is_encoder_decoder"),
        *("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop", "embedding_dropout"),
        *("classifier_dropout", "head_dropout", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop"),
        *("output_attentions", "output_hidden_states", "return_dict", "use_cache", "use_return_dict"),
        *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
    }
)
"""settings that do not change what a trained model computes in evaluation mode"""
UNSET: tuple[Any, ...] = (None, False, [], {}, "")
"""values under which an unknown setting does nothing"""


@final
class Values:
    """Reads settings by name and remembers which; `path` is the file that errors name."""

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self._values = values
        self._path = path
        self._used: set[str] = set()

    def get(self, name: str, kind: type, default: Any = None) -> Any:
        """The value, of this type; the default where there is none. ValueError where the type is another."""
        self._used.add(name)
        value = self._values.get(name)
        if value is None:
            if default is None and kind is not dict:
                raise ValueError(f"{self._path} lacks {name}")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise ValueError(f"{self._path}: {name} must be of type {kind.__name__}, not {value!r}")
        return value

    def size(self, name: str, default: int | None = None, most: int = 2**20) -> int:
        """A whole number from 1 to `most`."""
        value: int = self.get(name, int, default)
        if not 1 <= value <= most:
            raise ValueError(f"{self._path}: {name} must lie in 1 … {most:,}, not {value:,}")
        return value

    def optional(self, name: str) -> Any:
        """The value, of any type; None where there is none."""
        self._used.add(name)
        return self._values.get(name)

    def require(self, name: str, *expected: Any, default: Any = None) -> Any:
        """One of the values that are built. ValueError, which says so, for another."""
        self._used.add(name)
        value = self._values.get(name, default)
        if value is None:
            value = default
        if value not in expected:
            raise ValueError(f"{self._path}: {name}={value!r} is not built; {' or '.join(map(repr, expected))} is")
        return value

    def name_list(self, name: str, values: Any, length: int) -> list[str]:
        """A list of names, one for each layer. ValueError where it is none."""
        self._used.add(name)
        if not isinstance(values, list) or len(values) != length or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{self._path}: {name} must name a kind for each of the {length} layers, not {values!r}")
        return values

    def ignore(self, *names: str) -> None:
        """Says of further settings that they do not matter."""
        self._used.update(names)

    def finish(self) -> None:
        """Raises ValueError for a setting that nothing has read, is set and may matter."""
        for name, value in self._values.items():
            if name not in self._used and name not in HARMLESS and value not in UNSET:
                raise ValueError(f"{self._path}: {name}={value!r} is not built, so that this model cannot be read")
