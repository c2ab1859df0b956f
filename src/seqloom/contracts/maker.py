"""What a user's name stands for, and how it is built: a mixer, an nn.Module or its class, or a function that makes one.

`dim`, `context` and the form (causal or bidirectional) are passed to arguments of the names that are usual for them.
"""

import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from seqloom.contracts.finding import first_line
from seqloom.core.config import read, suggestion
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds

DIM = ("dim", "d_model", "hidden_size", "embed_dim", "n_embd")
CONTEXT = ("context", "context_length", "block_size", "max_len", "seq_len")
FORM = ("causal", "is_causal", "bidirectional")
Make = Callable[[int], nn.Module]
"""make(context) → the module"""


def resolve(target: str) -> Any:
    """The object of a name. ValueError where there is none."""
    file_or_module, colon, name = target.rpartition(":")
    if not colon:
        if target in kinds():
            return kinds()[target]
        raise ValueError(f"{target!r} is no mixer and no package.module:Thing; {suggestion(target, kinds())}")
    if not file_or_module or not name:
        raise ValueError(f"{target!r} is no package.module:Thing")
    with one_line(f"{file_or_module} cannot be imported"):
        load = _of_file if file_or_module.endswith(".py") else import_module
        value: Any = load(file_or_module)
    with one_line(f"{target} cannot be read"):
        for part in name.split("."):
            if not hasattr(value, part):
                public = [attribute for attribute in dir(value) if attribute[0] != "_"]
                raise ValueError(f"{file_or_module} has no {name}; {suggestion(part, public)}")
            value = getattr(value, part)
    return value


def _of_file(path: str) -> ModuleType:
    """The module in a file, or the one that was imported from it already. FileNotFoundError where there is none."""
    file = Path(path).resolve(strict=True)
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and Path(origin).resolve() == file:
            return module
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_in_file"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def one_line(why: str) -> Iterator[None]:
    """Whatever a user's code raises as a ValueError of one line that begins with `why`; not the user's own Ctrl-C.

    An attempt to end the program is an error too. A ValueError that says whose it is already stays as it is.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except ValueError as error:
        if str(error).startswith(why.split(maxsplit=1)[0]):
            raise
        raise ValueError(f"{why}: {first_line(error)}") from error
    except BaseException as error:
        raise ValueError(f"{why}: {type(error).__name__}: {first_line(error)}") from error


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
    with one_line(f"{target} cannot be built"):
        arguments = inspect.signature(thing).parameters
    return _of_arguments(target, thing, arguments, dim, settings, causal)


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


def _of_arguments(
    target: str,
    make: Callable[..., Any],
    arguments: Any,
    dim: int,
    settings: dict[str, Any],
    causal: bool,
) -> tuple[Make, bool]:
    """As `maker`, of a class or a function whose arguments for dim, context and form are found by their usual names."""
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in arguments.values())
    unknown = [name for name in settings if name not in arguments and not takes_any]
    if unknown:
        raise ValueError(f"{target} takes no argument {unknown[0]!r}; {suggestion(unknown[0], arguments)}")
    dim_argument = next((name for name in DIM if name in arguments), None)
    context_argument = next((name for name in CONTEXT if name in arguments), None)
    forms = {name: causal == (name != "bidirectional") for name in FORM if _is_switch(arguments.get(name))}
    values = {**({dim_argument: dim} if dim_argument else {}), **forms, **settings}
    missing = [
        name
        for name, parameter in arguments.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name not in (*values, context_argument)
    ]
    if missing:
        raise ValueError(
            f"{target} needs {', '.join(missing)}: give --set {missing[0]}=value, or name a function that builds it"
        )

    def build(context: int) -> nn.Module:
        module = make(**{**({context_argument: context} if context_argument else {}), **values})
        if not isinstance(module, nn.Module):
            raise ValueError(f"{target} is no module: it makes {describe_value(module)}")
        return module

    return build, context_argument is not None and context_argument not in settings


def _is_switch(argument: inspect.Parameter | None) -> bool:
    """Whether an argument is a bool by its default, or has none."""
    return argument is not None and (argument.default is argument.empty or isinstance(argument.default, bool))


def describe_value(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} in {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"
