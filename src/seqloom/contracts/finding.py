"""The result of a promise for one subject: it holds, it breaks, or it does not apply, and why."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal, TypeAlias, final

import torch
from torch import Tensor

from seqloom.contracts.subject import Subject
from seqloom.core.error_text import first_line

Verdict: TypeAlias = Literal["holds", "breaks", "does not apply"]


@final
@dataclass(frozen=True)
class Finding:
    """The result of one promise."""

    promise: str
    verdict: Verdict
    detail: str
    """where it breaks and by how much, the largest difference where it holds, or why it does not apply"""
    difference: float | None = None
    """the largest measured difference; None where nothing was measured"""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """the error that the subject raised, where it broke that way"""


class Broken(AssertionError):
    """A promise does not hold: the message says where and by how much."""

    def __init__(self, message: str, difference: float | None = None) -> None:
        super().__init__(message)
        self.difference = difference


class NotApplicable(Exception):
    """The subject lacks what the promise is about; the message says what."""


@final
class Largest:
    """The largest difference of one kind of comparison, measured by the share of what is allowed."""

    def __init__(self, least: float = 1.0) -> None:
        """`least`: the least scale of a comparison, for tensors of small numbers."""
        self.least = least
        self.difference = 0.0
        self.tried = ""
        """what was compared, for the finding; nothing where it is the same for every subject"""
        self._share = -1.0
        self._message = ""

    def note(self, difference: float, allowed: float, message: str) -> None:
        """Remembers the difference if it is the largest so far; NaN is larger than any."""
        size = torch.inf if math.isnan(difference) else difference
        share = torch.inf if size else 0.0  # where nothing is allowed
        if allowed:
            share = size / allowed
        if (share, size) > (self._share, self.difference):
            self._share = share
            self.difference = size
            self._message = f"{message} {difference:.3g}, allowed {allowed:.3g}"

    def close(self, result: Tensor, expected: Tensor, rounding: float, where: str) -> None:
        """Compares numbers: differences up to `rounding` times the largest expected one are allowed.

        Broken for other shapes.
        """
        if result.shape != expected.shape:
            raise Broken(f"{where}: shape {tuple(result.shape)}, wanted {tuple(expected.shape)}")
        if expected.numel():
            scale = max(self.least, float(expected.detach().abs().max()))
            differences = (result.detach() - expected.detach()).abs()
            self.note(float(differences.max()), rounding * scale, f"{where} is off by")

    def settle(self) -> None:
        """Raises Broken where more than what is allowed was noted."""
        if self._share > 1:
            raise Broken(self._message, self.difference)


@contextmanager
def largest(least: float) -> Iterator[Largest]:
    """Comparisons of one kind: after all of them Broken is raised if the largest difference exceeds what is allowed."""
    worst = Largest(least)
    yield worst
    worst.settle()


Check: TypeAlias = Callable[[Subject], Largest | str]
Promise: TypeAlias = Callable[[Subject], Finding]


def promise(name: str) -> Callable[[Check], Promise]:
    """Makes a promise of a check, which returns what it measured, or raises Broken or NotApplicable.

    Whatever else the subject raises breaks the promise too, also an attempt to end the program. Ctrl-C ends it.
    """

    def decorate(check: Check) -> Promise:
        @wraps(check)
        def judge(subject: Subject) -> Finding:
            try:
                measured = check(subject)
            except NotApplicable as why:
                return Finding(name, "does not apply", str(why))
            except Broken as why:
                return Finding(name, "breaks", str(why), why.difference, why)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                return Finding(name, "breaks", f"raised {type(error).__name__}: {first_line(error)}", None, error)
            if isinstance(measured, str):
                return Finding(name, "holds", measured)
            exact = measured.difference == 0
            detail = "exactly" if exact else f"largest difference {measured.difference:.2g}"
            tried = f" ({measured.tried})" if measured.tried else ""
            return Finding(name, "holds", f"{detail}{tried}", measured.difference)

        return judge

    return decorate
