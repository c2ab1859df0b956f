"""The numbers that a page is drawn from: finite, with sums and squares that are finite too."""

from typing import Annotated, TypeAlias

from pydantic import Field

LARGEST = 1e100
"""the largest size of a number, so that sums and squares of many are finite"""
Number: TypeAlias = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, le=2**53)]
