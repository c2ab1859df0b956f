"""The subject that a user names: `package.module:Thing`, or a registered mixer.

A Thing is a MixerConfig or its class, an nn.Module or its class, or a function that makes one. `dim` and `context` are
passed to arguments of the names that are usual for them; parameters that begin constant (zeros, ones) are moved a
little, so that a zero does not hide errors in later layers.
"""

import copy
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import first_line
from seqloom.contracts.subject import Subject, working_dtype
from seqloom.core.config import read, suggestion
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds

DIM = ("dim", "d_model", "hidden_size", "embed_dim", "n_embd")
CONTEXT = ("context", "context_length", "block_size", "max_len", "seq_len")
WIDEST = 16
"""the context where none is given"""
SMALLEST = 5
NOISE = 0.1
"""standard deviation of the noise added to a constant parameter"""
SEED = 7


def subject_of(
    target: str, *, dim: int, context: int | None = None, settings: dict[str, Any] | None = None, causal: bool = True
) -> Subject:
    """The subject behind a name. ValueError, in one line, for what cannot be imported or built, or is no module."""
    make, bounded = _maker(target, resolve(target), dim, settings or {})
    widest = context or WIDEST

    def build(size: int | None, dtype: torch.dtype, /) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            module = make(size or widest)
        return _with_noise(module).to(dtype).eval()

    sample = _built(target, lambda: build(widest, torch.float32))
    mixer = isinstance(sample, Mixer)
    if mixer:
        _built(target, lambda: build(min(SMALLEST, widest), torch.float32))
    _require_same(target, sample, build(widest, torch.float32))
    scale = _largest_output(target, sample, torch.float32, dim)
    dtype, working = _dtypes(target, build(widest, torch.float64), dim)
    return Subject(
        target,
        dim,
        build,
        contexts=(min(SMALLEST, widest), widest) if mixer else (widest,),
        dtype=dtype,
        working=working,
        scale=scale,
        causal=causal,
        longest=widest if bounded or context else None,
    )


def resolve(target: str) -> Any:
    """The object of a name. ValueError where there is none."""
    module_name, colon, name = target.partition(":")
    if not colon:
        if target in kinds():
            return kinds()[target]
        raise ValueError(f"{target!r} is no mixer and no package.module:Thing; {suggestion(target, kinds())}")
    if not module_name or not name:
        raise ValueError(f"{target!r} is no package.module:Thing")
    try:
        value: Any = import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs the module's code, which may raise anything
        raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {first_line(error)}") from error
    for part in name.split("."):
        if not hasattr(value, part):
            public = [attribute for attribute in dir(value) if attribute[0] != "_"]
            raise ValueError(f"{module_name} has no {name}; {suggestion(part, public)}")
        value = getattr(value, part)
    return value


def _maker(target: str, thing: Any, dim: int, settings: dict[str, Any]) -> tuple[Callable[[int], nn.Module], bool]:
    """A function from a context to the module, and whether the module takes the context as an argument."""
    if isinstance(thing, MixerConfig) or (isinstance(thing, type) and issubclass(thing, MixerConfig)):
        config: MixerConfig = thing.model_copy() if isinstance(thing, MixerConfig) else _settings(thing, settings)
        if isinstance(thing, MixerConfig) and settings:
            raise ValueError(f"{target} has its settings already: --set is for a class")
        causal = config.traits.causal != "never"
        return lambda context: config.build(dim, context, causal), False  # a mixer's traits bound its length
    if isinstance(thing, nn.Module):
        if settings:
            raise ValueError(f"{target} is built already: --set is for a class or a function")
        return lambda context: copy.deepcopy(thing), False
    if not callable(thing):
        raise ValueError(f"{target} is no module: it is {_described(thing)}, not an nn.Module, its class or a function")
    if isinstance(thing, type) and not issubclass(thing, nn.Module):
        raise ValueError(f"{target} is no module: it is a class that does not derive from nn.Module")
    return _called(target, thing, dim, settings)


def _settings(kind: type[MixerConfig], settings: dict[str, Any]) -> MixerConfig:
    values = {"kind": kind.model_fields["kind"].default, **settings}
    config: MixerConfig = read(kind, values)
    return config


def _called(
    target: str, make: Callable[..., Any], dim: int, settings: dict[str, Any]
) -> tuple[Callable[[int], nn.Module], bool]:
    """As `_maker`, of a class or a function whose arguments `dim` and `context` are found by their usual names."""
    arguments = inspect.signature(make).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in arguments.values())
    unknown = [name for name in settings if name not in arguments and not takes_any]
    if unknown:
        raise ValueError(f"{target} takes no argument {unknown[0]!r}; {suggestion(unknown[0], arguments)}")
    dim_argument = next((name for name in DIM if name in arguments), None)
    context_argument = next((name for name in CONTEXT if name in arguments), None)
    values = {**({dim_argument: dim} if dim_argument else {}), **settings}
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
            raise ValueError(f"{target} is no module: it makes {_described(module)}")
        return module

    return build, context_argument is not None and context_argument not in settings


def _built(target: str, build: Callable[[], nn.Module]) -> nn.Module:
    """What `build` returns; ValueError, with the target's name, for any error that it raises."""
    try:
        return build()
    except ValueError as error:
        if str(error).startswith(target):
            raise
        raise ValueError(f"{target} cannot be built: {first_line(error)}") from error
    except Exception as error:
        raise ValueError(f"{target} cannot be built: {type(error).__name__}: {first_line(error)}") from error


def _with_noise(module: nn.Module) -> nn.Module:
    """The module, after noise was added to its trainable parameters that are constant."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in module.parameters():
            if not (parameter.requires_grad and parameter.is_floating_point() and parameter.numel()):
                continue
            if bool((parameter == parameter.view(-1)[0]).all()):
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_((NOISE * noise).to(parameter.dtype))
    return module


def _require_same(target: str, first: nn.Module, second: nn.Module) -> None:
    """ValueError where two modules of one seed differ."""
    second_state = second.state_dict()
    for name, tensor in first.state_dict().items():
        if not torch.equal(tensor, second_state[name]):
            raise ValueError(
                f"{target} is another module each time: {name} differs under the same seed (was it ever initialized?)"
            )


def _dtypes(target: str, wide: nn.Module, dim: int) -> tuple[torch.dtype, torch.dtype]:
    """The dtype of comparisons, float64 if the module takes it, and the narrowest dtype that it computes in."""
    try:
        _largest_output(target, wide, torch.float64, dim)
    except ValueError:
        return torch.float32, torch.float32
    return torch.float64, working_dtype(wide, _sample(torch.float64, dim))


def _sample(dtype: torch.dtype, dim: int) -> Tensor:
    """Two rows of four tokens (2, 4, D)."""
    return torch.randn(2, 4, dim, generator=torch.Generator().manual_seed(SEED)).to(dtype)


def _largest_output(target: str, module: nn.Module, dtype: torch.dtype, dim: int) -> float:
    """The largest output. Raises ValueError unless all are finite numbers of the input's shape and dtype."""
    x = _sample(dtype, dim)
    try:
        with torch.no_grad():
            y = module(x)
    except Exception as error:
        raise ValueError(
            f"{target} cannot read {tuple(x.shape)}, dim {dim}: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not isinstance(y, Tensor) or y.shape != x.shape:
        raise ValueError(
            f"{target} makes {_described(y)} of {tuple(x.shape)}: wrap it in a module that keeps the shape"
        )
    if y.dtype != dtype or not bool(y.isfinite().all()):
        raise ValueError(
            f"{target} makes {_described(y)} of {dtype} inputs: its outputs must be finite and of the same dtype"
        )
    return float(y.abs().max()) or 1.0


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} in {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"
