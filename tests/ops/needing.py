"""Tests that need native code. They are skipped without a compiler; with one, missing native code fails."""

import os
import sys

import pytest

from seqloom.ops import backends
from seqloom.ops.native import compiler

NATIVE = ("native", "spectral")
"""backends that are C"""


def why_not() -> str:
    """Why this machine is not expected to have native code; "" if it is."""
    if sys.platform != "linux" or os.environ.get("SEQLOOM_NATIVE") == "0":
        return "native code is for Linux, and off where SEQLOOM_NATIVE=0"
    try:
        compiler.find()
    except compiler.Unavailable as reason:
        return str(reason)
    return ""


def lacking(op: str) -> dict[str, str]:
    """The backends of an op that this machine cannot run, each with why, but for native code that it should have."""
    reasons = backends.unavailable(op)
    return reasons if why_not() else {name: reason for name, reason in reasons.items() if name not in NATIVE}


needs_native = pytest.mark.skipif(bool(why_not()), reason=why_not())
"""by the compiler, not by the library: one that fails or takes too long skips nothing"""
