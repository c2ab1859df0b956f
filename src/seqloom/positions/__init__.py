"""Where a token is. A new position is one file and one name below; see `seqloom.core.position`."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from seqloom.core.position import PositionConfig, kinds

__all__ = ["FILES", "AnyPosition", "kinds"]

FILES = (
    "learned",
    "learned_each_layer",
    "sinusoidal",
    "rotary",
    "xpos",
    "t5",
    "alibi",
    "transformer_xl",
    "da",
    "shaw",
    "none",
)

for _file in FILES:
    import_module(f"{__name__}.{_file}")

if TYPE_CHECKING:
    AnyPosition = PositionConfig
else:
    AnyPosition = Annotated[Union[tuple(kinds().values())], Field(discriminator="kind")]  # noqa: UP007  # made at run time
