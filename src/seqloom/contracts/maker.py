"""What a user's name stands for, and how it is built: a mixer, an nn.Module or its class, or a function that makes one.

`dim`, `context` and the form (causal or bidirectional) are passed to arguments of the names that are usual for them.
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from seqloom.core.config import read, suggestion
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.named_object import find_object
from seqloom.mixers import kinds
from seqloom.mixers.layer_arguments import LayerArguments

Make = Callable[[int], nn.Module]
"""make(context) → the module"""


def resolve(target: str) -> Any:
    """The object of a name: a mixer's class of settings, or any object. ValueError where there is none."""
    if ":" in target:
        return find_object(target)
    if target not in kinds():
        raise ValueError(f"{target!r} is no mixer and no package.module:Thing; {suggestion(target, kinds())}")
    return kinds()[target]


def maker(target: str, thing: Any, dim: int, settings: dict[str, Any], causal: bool) -> tuple[Make, bool]:
    """A function from a context to the module, and whether the module takes the context as an argument.

    Of a mixer that has no causal form it is the bidirectional one.
    """
    if isinstance(thing, MixerConfig) or (isinstance(thing, type) and issubclass(thing, MixerConfig)):
        config: MixerConfig = thing.model_copy() if isinstance(thing, MixerConfig) else _config(thing, settings)
        if isinstance(thing, MixerConfig) and settings:
            raise ValueError(f"{target} has its settings already: --set is for a class")
        form = causal and config.traits.causal != "never"
        return lambda context: config.build(dim, context, form), False  # a mixer's traits bound its length
    if isinstance(thing, nn.Module):
        if settings:
            raise ValueError(f"{target} is built already: --set is for a class or a function")
        return lambda context: copy.deepcopy(thing), False
    if not callable(thing):
        raise ValueError(
            f"{target} is no module: it is {describe_value(thing)}, not an nn.Module, its class or a function"
        )
    if isinstance(thing, type) and not issubclass(thing, nn.Module):
        raise ValueError(f"{target} is no module: it is a class that does not derive from nn.Module")
    arguments = LayerArguments(target, thing)
    arguments.values(dim, 1, causal, settings)

    def build(context: int) -> nn.Module:
        module = thing(**arguments.values(dim, context, causal, settings))
        if not isinstance(module, nn.Module):
            raise ValueError(f"{target} is no module: it makes {describe_value(module)}")
        return module

    return build, arguments.context is not None and arguments.context not in settings


def takes(thing: Any, name: str) -> bool:
    """Whether a config, a class or a function has a setting or an argument of this name."""
    if isinstance(thing, nn.Module | MixerConfig):
        return False
    if isinstance(thing, type) and issubclass(thing, MixerConfig):
        return name in thing.model_fields
    return callable(thing) and name in inspect.signature(thing).parameters


def _config(kind: type[MixerConfig], settings: dict[str, Any]) -> MixerConfig:
    values = {"kind": kind.model_fields["kind"].default, **settings}
    config: MixerConfig = read(kind, values)
    return config


def describe_value(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} in {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"
