"""The arguments with which a layer of any package is built: sizes by the names that are usual for them, and settings.

arguments = LayerArguments("my.py:Layer", Layer)
arguments.values(dim=64, context=128, causal=True, number=0, settings={"heads": 4})
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, final

from torch import nn

from seqloom.core.config import suggestion
from seqloom.core.named_object import one_line

DIM = ("dim", "d_model", "hidden_size", "embed_dim", "n_embd")
CONTEXT = ("context", "context_length", "block_size", "max_len", "seq_len")
FORM = ("causal", "is_causal", "bidirectional")
MASKS = ("keep", "mask", "attention_mask", "padding_mask")
"""names of the argument of `forward` that says which tokens are real"""
NUMBER = ("layer_idx", "layer_index")
"""the number of the layer in its model, by which some layers find their own entry in a cache"""


@final
class LayerArguments:
    """The arguments of a class or a function that makes a layer, which errors call `name`."""

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name = name
        with one_line(f"{name} cannot be built"):
            self.parameters = dict(inspect.signature(make).parameters)
        self.dim = self._first(DIM)
        self.context = self._first(CONTEXT)
        self.number = self._first(NUMBER)
        self.forms = [form for form in FORM if _is_switch(self.parameters.get(form))]

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that are left to the user, with their defaults (None for those that have none)."""
        given = {self.dim, self.context, self.number, *self.forms}
        named = {name: argument for name, argument in self.parameters.items() if _is_named(argument)}
        return {
            name: None if argument.default is argument.empty else argument.default
            for name, argument in named.items()
            if name not in given
        }

    def values(
        self, dim: int, context: int | None, causal: bool, settings: Mapping[str, Any], number: int | None = None
    ) -> dict[str, Any]:
        """The keyword arguments; a setting comes before the value that its name would have been given.

        ValueError for settings that are no argument, and for arguments that are neither given nor have a default.
        """
        takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in self.parameters.values())
        unknown = [name for name in settings if name not in self.parameters and not takes_any]
        if unknown:
            raise ValueError(f"{self.name} takes no argument {unknown[0]!r}; {suggestion(unknown[0], self.parameters)}")
        sizes = {self.dim: dim, self.context: context, self.number: number}
        forms = {form: causal == (form != "bidirectional") for form in self.forms}
        known = {name: size for name, size in sizes.items() if name is not None and size is not None}
        values = {**known, **forms, **settings}
        missing = [
            name
            for name, argument in self.parameters.items()
            if argument.default is argument.empty and _is_named(argument) and name not in values
        ]
        if missing:
            raise ValueError(
                f"{self.name} needs {', '.join(missing)}: give {missing[0]}=value, or a default in its code"
            )
        return values

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in self.parameters), None)


def _is_named(argument: inspect.Parameter) -> bool:
    """Whether an argument can be given by its name."""
    return argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD, argument.POSITIONAL_ONLY)


def _is_switch(argument: inspect.Parameter | None) -> bool:
    """Whether an argument is a bool by its default, or has none."""
    return argument is not None and (argument.default is argument.empty or isinstance(argument.default, bool))


def mask_argument(module: nn.Module) -> str | None:
    """The argument of `forward` that says which tokens are real, by its usual names; None where it has none."""
    arguments = inspect.signature(module.forward).parameters
    return next((name for name in MASKS if name in arguments), None)
