"""The broken mixers, each with the check that must catch it and the message of that check."""

from collections.abc import Callable

from seqloom.core.mixer import Mixer

FAULTS: list[tuple[str, type[Mixer], str]] = []
"""(check, mixer, a pattern of the message of the check)"""


def caught_by(**checks: str) -> Callable[[type[Mixer]], type[Mixer]]:
    """Registers the checks that must fail on the class, each with a pattern of its message."""

    def note(kind: type[Mixer]) -> type[Mixer]:
        FAULTS.extend((check, kind, says) for check, says in checks.items())
        return kind

    return note
