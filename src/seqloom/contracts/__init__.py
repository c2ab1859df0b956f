"""The promises of `docs/contract.md` as functions: `promise(subject)` gives a Finding.

`seqloom verify` makes a Subject of what a user names, and `tests/contract` makes one of every registered mixer.
"""

from seqloom.contracts.causality import causality
from seqloom.contracts.finding import Finding, Promise
from seqloom.contracts.gradients import gradients
from seqloom.contracts.numbers import bfloat16, compiles, rows
from seqloom.contracts.padding import gaps, padding
from seqloom.contracts.price import price
from seqloom.contracts.reading import pieces, token_steps
from seqloom.contracts.reference import reference
from seqloom.contracts.subject import Subject

__all__ = ["PROMISES", "Finding", "Subject", "verify"]

PROMISES: tuple[Promise, ...] = (
    causality, rows, padding, gaps, pieces, token_steps, gradients, price, bfloat16, compiles
)  # fmt: skip
"""in the order in which they are reported"""


def verify(subject: Subject) -> list[Finding]:
    """The findings of all promises for the subject; the last compares it with its reference, if it has one."""
    checks = (*PROMISES, reference) if subject.reference is not None else PROMISES
    return [check(subject) for check in checks]
