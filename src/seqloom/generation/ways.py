"""How a text is written, as values: which of them go together, and which of the rest is missing.

Sampling    with any of the others but Beams
Exits, Retrieval    together or alone
Draft, Beams        of these, alone
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from seqloom.core.arguments import describe_value
from seqloom.core.config import read
from seqloom.generation.beams import Beams
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits
from seqloom.generation.sample import Sampling
from seqloom.retrieval.neighbors import Retrieval

Way: TypeAlias = Sampling | Beams | Draft | Exits | Retrieval
WAYS = (Sampling, Beams, Draft, Exits, Retrieval)
T = TypeVar("T", bound=Way)
OWN = "a draft is of the large model's own predictions: leave out neighbors and exits, or the draft"
BEAMS = "a beam search does not sample and ends at <eos>: leave out the search, or the other"
APART: dict[tuple[type[Way], type[Way]], str] = {
    (Draft, Exits): OWN,
    (Draft, Retrieval): OWN,
    (Beams, Sampling): BEAMS,
    (Beams, Draft): BEAMS,
    (Beams, Exits): BEAMS,
    (Beams, Retrieval): BEAMS,
}
"""what does not go together, and what the error says"""


class Ways:
    """The values that one text is written by, at most one of each class."""

    def __init__(self, given: Sequence[Any], sampling: Mapping[str, Any]) -> None:
        """`sampling` are settings of a Sampling, in place of one. TypeError or ValueError for what does not fit."""
        values = [*given, read(Sampling, dict(sampling))] if sampling else given
        self._by_class: dict[type[Any], Way] = {}
        for value in values:
            kind = type(value)
            if kind not in WAYS:
                names = ", ".join(each.__name__ for each in WAYS)
                raise TypeError(f"a text is written by {names}, not {describe_value(value)}")
            if kind in self._by_class:
                raise ValueError(f"{kind.__name__} is given twice: leave one out")
            self._by_class[kind] = value
        for pair, reason in APART.items():
            if all(kind in self._by_class for kind in pair):
                raise ValueError(reason)

    def get(self, kind: type[T]) -> T | None:
        """The value of a class, if there is one."""
        value = self._by_class.get(kind)
        return value if isinstance(value, kind) else None
