"""What the columns hold that a page is drawn from: finite numbers, with sums and squares that are too, and texts."""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

LARGEST = 1e100
"""the largest size of a number, so that sums and squares of many are finite"""
Number: TypeAlias = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, le=2**53)]


def require_unicode(text: str) -> str:
    """The text. ValueError for half of a surrogate pair, which JSON can hold and no page can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not Unicode text") from None
    return text


Words: TypeAlias = Annotated[str, AfterValidator(require_unicode)]
