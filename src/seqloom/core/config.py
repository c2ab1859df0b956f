"""Settings: frozen, and strict about names and types.

A typo is an error that names the nearest known name. A field's description is its help on the command line.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Annotated, Any, ClassVar, Self, TypeAlias, final, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationError,
    model_serializer,
    model_validator,
)
from typing_extensions import override

LARGEST = 2**24
"""largest value of a size in a mixer's settings"""
Ints: TypeAlias = Annotated[tuple[Annotated[int, Strict()], ...], Field(strict=False)]
"""the type of a field that takes a list of ints and holds a tuple of them, so that settings can be hashed"""
IntLists: TypeAlias = Annotated[tuple[Ints, ...], Field(strict=False)]
"""the type of a field that takes a list of lists of ints and holds tuples"""


class Config(BaseModel):
    """The base of all settings: immutable, without unknown names, and every value has the type of its field.

    An int is accepted for a float; nothing else is converted, and a bool is not a number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)
    later: ClassVar[tuple[str, ...]] = ()
    """fields that were added after runs had been saved. They are written only where they differ from their default, so
    that the settings and the identity of an older run do not change"""

    @model_validator(mode="before")
    @classmethod
    def _python_ints(cls, values: Any) -> Any:
        """Converts numpy's integers to Python's."""
        return {name: _python_int(value) for name, value in values.items()} if isinstance(values, dict) else values

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The settings as plain values, without the fields of `later` that are at their defaults."""
        return self._write_values(write)

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, with the fields of `update` replaced and checked as in new settings; ValueError for wrong ones."""
        if not update:
            return super().model_copy(deep=deep)
        values = {name: getattr(self, name) for name in type(self).model_fields}
        changed: Self = read(type(self), {**values, **update})
        changed.__pydantic_fields_set__.clear()
        changed.__pydantic_fields_set__.update(self.model_fields_set, update)
        return changed

    def _write_values(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = write(self)
        for name in self.later:
            if getattr(self, name) == type(self).model_fields[name].default:
                values.pop(name, None)
        return values


def _python_int(value: Any) -> Any:
    return int(value) if isinstance(value, Integral) and not isinstance(value, int) else value


class SizedConfig(Config):
    """Settings in which no whole number is larger than `LARGEST`."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        """Raises ValueError for a whole number above `LARGEST`."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, int) and value > LARGEST:
                raise ValueError(f"{name} must be at most {LARGEST:,}, not {value}")
        return self


MANY = 30
"""the most names that an error lists in full"""


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known name, else all of them, or some of many."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    if len(names) > MANY:
        return f"there are {len(names)}, such as {', '.join(names[:: len(names) // 5])}"
    return f"there is {', '.join(names)}"


@final
class InvalidSettings(ValueError):
    """An error in nested settings, in one line. Outer settings report it with the full path of each field."""

    def __init__(self, kind: type[Config], error: ValidationError) -> None:
        super().__init__(describe_errors(kind, error))
        self.kind = kind
        self.error = error


def read(kind: type[Config], values: dict[str, Any]) -> Any:
    """`values` as a `kind`; raises ValueError in one line that names each wrong field and the nearest known name."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ValueError(describe_errors(kind, error)) from None


def read_inside(kind: type[Config], values: dict[str, Any]) -> Any:
    """As `read`, for use in a validator of outer settings, whose error then has full paths, such as `model.dim`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(kind, error) from None


def describe_errors(kind: type[BaseModel], error: ValidationError, outside: Sequence[str] = ()) -> str:
    """What is wrong with each field, on one line; `outside` is the path from the outermost settings to `kind`."""
    return "; ".join(_problem_text(kind, problem, outside) for problem in error.errors())


def _problem_text(kind: type[BaseModel], problem: Any, outside: Sequence[str]) -> str:
    """What is wrong with one field, or with the fields of the settings that it holds (read by `read_inside`)."""
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InvalidSettings):
        names, _, _ = _locate(kind, problem["loc"])
        return describe_errors(cause.kind, cause.error, [*outside, *names])
    return _field_text(kind, problem, outside)


def _field_text(kind: type[BaseModel], problem: Any, outside: Sequence[str]) -> str:
    """What is wrong with one field: its full path, pydantic's reason in our words, and the value where it is short."""
    path, settings, choices = _locate(kind, problem["loc"])
    names = [*outside, *path]
    field = ".".join(names)
    match problem["type"]:
        case "extra_forbidden":
            return f"unknown setting {field!r}; {suggestion(names[-1], settings.model_fields)}"
        case "missing":
            return f"setting {field!r} is missing"
        case "union_tag_invalid":
            tag = str(problem["ctx"]["tag"])
            return f"unknown {field} {tag!r}; {suggestion(tag, choices)}"
        case "union_tag_not_found":
            return f"{field} needs a kind; there is {', '.join(choices)}"
        case "model_attributes_type" if choices:
            return f"{field} is given by its settings, such as {{kind: {min(choices)}}}, not {problem['input']!r}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    value = "" if isinstance(problem["input"], dict | list) else f", not {problem['input']!r}"
    return f"{field}: {message[:1].lower()}{message[1:]}{value}" if field else message


def _locate(
    kind: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[list[str], type[BaseModel], dict[str, type[BaseModel]]]:
    """A field's path as the user writes it, the class of settings that has it, and its possible kinds if it has any."""
    names: list[str] = []
    choices: dict[str, type[BaseModel]] = {}
    for part in map(str, location):
        if part in choices:  # pydantic writes the chosen kind into the path
            kind, choices = choices[part], {}
            continue
        names.append(part)
        field = kind.model_fields.get(part)
        inner = field.annotation if field else None
        if field is not None and isinstance(field.discriminator, str):
            choices = {member.model_fields[field.discriminator].default: member for member in get_args(inner)}
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            kind = inner
        elif get_origin(inner) is tuple and isinstance(get_args(inner)[0], type):  # a list of settings
            kind = get_args(inner)[0] if issubclass(get_args(inner)[0], BaseModel) else kind
    return names, kind, choices
