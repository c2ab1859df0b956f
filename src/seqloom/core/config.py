"""Settings: frozen, and strict about names and types.

A typo is an error that says what was near. A field's description is its help on the command line.
"""

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)


class Config(BaseModel):
    """Settings of one thing: immutable, of no name that it does not know, and each value of its field's own type.

    A whole number may stand for a fraction; nothing else is converted, and a boolean is no number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
    later: ClassVar[tuple[str, ...]] = ()
    """fields that came after runs were kept: said where they differ from their default alone, so that a run of before
    says what it said, and its identity is what it was"""

    @field_validator("*", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """Whole numbers of numpy as Python's own."""
        return int(value) if isinstance(value, Integral) and not isinstance(value, int) else value

    @model_serializer(mode="wrap")
    def _said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        said: dict[str, Any] = write(self)
        for name in self.later:
            if getattr(self, name) == type(self).model_fields[name].default:
                said.pop(name, None)
        return said


def near(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: what was near, or all there is."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}"


def read(kind: type[Config], values: dict[str, Any]) -> Any:
    """`values` as a `kind`; raises ValueError in one line that names each wrong field and what was near."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ValueError("; ".join(_line(kind, problem) for problem in error.errors())) from None


def _line(kind: type[Config], problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown setting {place!r}; {near(str(problem['loc'][-1]), _fields(kind, problem['loc'][:-1]))}"
    if problem["type"] == "missing":
        return f"setting {place!r} is missing"
    said = str(problem["msg"]).removeprefix("Value error, ")
    found = "" if isinstance(problem["input"], dict | list) else f", not {problem['input']!r}"
    return f"{place}: {said[:1].lower()}{said[1:]}{found}" if place else said


def _fields(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        kind = inner
    return list(kind.model_fields)
