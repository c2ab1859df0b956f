"""Checks the tensors of an op before it runs, by the jaxtyping annotations of its public function.

    @checked("wkv")
    def wkv(k: Float[Tensor, "B T D"], state: Float[Tensor, "B 3 D"] | None = None) -> ...

Sizes, dtypes (`Float`, `Inexact`, `Int`, `Bool`, `Int64`; `Shaped` is the dtype of the first such argument) and devices
are checked, and what is wrong is one line that names the argument. Of several annotations for one argument that with
its number of dimensions counts. Letters get their values from the arguments in order, those with several annotations
last. jaxtyping reads from left to right; sizes of a letter that follows later are given by name:
`@checked("slstm", a="B T H 4*K")`.
"""

import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, ParamSpec, TypeVar, final

import jaxtyping
import torch
from torch import Tensor
from torch.compiler import is_compiling

from seqloom.core.guards import guards_of
from seqloom.ops.native.signature import Argument, Kind, Signature

P = ParamSpec("P")
R = TypeVar("R")
_DTYPES: dict[Any, torch.dtype | Kind | None] = {
    jaxtyping.Float: "real",
    jaxtyping.Inexact: "number",
    jaxtyping.Int: "integer",
    jaxtyping.Int64: torch.int64,
    jaxtyping.Bool: torch.bool,
    jaxtyping.Shaped: None,
}


def check_shapes(op: str, *, least: str = "", **sizes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function raises ValueError or TypeError unless its tensors fit their annotations.

    `least` names sizes that must be at least 1; `sizes` replace those of an annotation.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        check = _Check(op, function, least, sizes)
        remembered, flat = check.remembered, not check.tuples

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_compiling():  # sizes may be symbols
                check.require(args, kwargs)
                return function(*args, **kwargs)
            values = (*args, *kwargs.values()) if flat else tuple(_flatten((*args, *kwargs.values())))
            kinds = (*map(type, values), *kwargs)
            last = remembered.get(kinds)
            if last is None or not last.fits(*last.tensors(values)):
                check.require(args, kwargs)
                check.remember(kinds, values)
            return function(*args, **kwargs)

        return call

    return decorate


class _Last(NamedTuple):
    """The last call that fit, which tensors of the same sizes and layout need not repeat."""

    tensors: Callable[[tuple[Any, ...]], tuple[Tensor, ...]]
    """the tensors among the values of a call"""
    fits: Callable[..., bool]


@final
class _Check:
    """What the annotations of a function say of its tensors."""

    def __init__(self, op: str, function: Callable[..., Any], least: str, sizes: Mapping[str, str]) -> None:
        self._op = op
        parameters = inspect.signature(function).parameters
        self._names = list(parameters)
        self.tuples: dict[str, tuple[str, ...]] = {}
        """the names of the tensors of an argument that is a tuple"""
        self._numbers: set[str] = set()
        """the arguments that may be a plain number or truth value in place of a tensor"""
        options: dict[str, dict[int, Argument]] = {}
        """the declarations of each tensor, by its number of dimensions"""
        for name, parameter in parameters.items():
            for argument in self._read_annotation(name, parameter.annotation, sizes.get(name)):
                options.setdefault(argument.name, {})[len(argument.sizes.split())] = argument
        self._several = {name: by_ndim for name, by_ndim in options.items() if len(by_ndim) > 1}
        single = {name: next(iter(by_ndim.values())) for name, by_ndim in options.items() if len(by_ndim) == 1}
        self._order = (*single, *self._several)
        self._signatures: dict[tuple[int, ...], Signature] = {}
        """by the numbers of dimensions of the arguments that have several declarations"""
        for chosen in itertools.product(*(by_ndim.items() for by_ndim in self._several.values())):
            arguments = (*single.values(), *(argument for _, argument in chosen))
            self._signatures[tuple(ndim for ndim, _ in chosen)] = Signature(op, *arguments, least=least)
        self.remembered: dict[tuple[object, ...], _Last] = {}
        """the last call that fit, by the types of its arguments"""

    def remember(self, kinds: tuple[object, ...], values: tuple[Any, ...]) -> None:
        """Remembers a call that fits; those of fewer than two tensors are quickly checked again."""
        places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
        guards = guards_of([values[place] for place in places])
        if guards is not None and len(places) > 1:
            self.remembered[kinds] = _Last(itemgetter(*places), guards.check)

    def require(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """ValueError or TypeError unless the tensors of a call fit."""
        given = dict(zip(self._names, args, strict=False)) | kwargs
        for name, members in self.tuples.items():
            if (value := given.get(name)) is not None:
                if len(value) != len(members):
                    raise TypeError(f"{self._op}: {name} must be {len(members)} tensors, not {len(value)}")
                absent = next((member for member, tensor in zip(members, value, strict=True) if tensor is None), None)
                if absent is not None:
                    raise TypeError(f"{self._op}: {absent} must be a tensor, not None")
                given |= dict(zip(members, value, strict=True))
        for name in self._numbers:
            if isinstance(given.get(name), (bool, int, float)):
                given[name] = None
        ndims = tuple([self._ndim(name, given.get(name)) for name in self._several])
        self._signatures[ndims].bind(*[given.get(name) for name in self._order])

    def _ndim(self, name: str, x: Any) -> int:
        """The number of dimensions whose declaration counts for an argument that has several."""
        by_ndim = self._several[name]
        if not isinstance(x, Tensor):
            return next(iter(by_ndim))
        if x.ndim not in by_ndim:
            *shapes, last_shape = (argument.shape for argument in by_ndim.values())
            raise ValueError(f"{self._op}: {name} must be {', '.join(shapes)} or {last_shape}, not {tuple(x.shape)}")
        return x.ndim

    def _read_annotation(self, name: str, annotation: Any, sizes: str | None) -> Iterator[Argument]:
        """The declarations of a parameter: several for a union, one for each tensor of a tuple."""
        is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
        options = typing.get_args(annotation) if is_union else (annotation,)
        is_number = is_union and any(option in (bool, int, float) for option in options)
        if is_number:
            self._numbers.add(name)
        optional = is_number or type(None) in options
        for option in options:
            if typing.get_origin(option) is tuple:
                members = typing.get_args(option)
                self.tuples[name] = tuple(f"{name}[{place}]" for place in range(len(members)))
                for member, member_name in zip(members, self.tuples[name], strict=True):
                    yield from self._read_annotation(member_name, member | None if optional else member, sizes)
            elif hasattr(option, "dim_str"):
                yield Argument(name, sizes or option.dim_str.strip(), _DTYPES[option.dtype], optional)


def _flatten(values: tuple[Any, ...]) -> Iterator[Any]:
    """The values, each tuple followed by what is in it."""
    for value in values:
        yield value
        if isinstance(value, tuple):
            yield from value
