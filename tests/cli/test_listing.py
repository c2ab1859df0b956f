"""The table of backends: every op and backend, what is not available and why, what is chosen."""

import pytest

from seqloom.cli.listing import CALLS, backends
from seqloom.ops import backends as chooser
from seqloom.ops import native
from seqloom.ops.wkv_average import native as wkv_native


def rows(text: str) -> dict[tuple[str, str], str]:
    return {tuple(line.split()[:2]): line for line in text.splitlines()[2:]}


def test_every_backend_of_every_op_has_its_row() -> None:
    found = rows(backends())
    assert list(found) == [(op, name) for op, names in sorted(chooser.known().items()) for name in names]
    for op in CALLS:
        assert any(" x " in line for (of, _), line in found.items() if of == op), op


def test_what_is_not_available_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    native.forget()
    assert not wkv_native.available()
    found = rows(backends())
    assert "SEQLOOM_NATIVE=0" in found["wkv_average", "native"]
    assert " x " not in found["wkv_average", "native"]
    assert "8 x 32" in found["wkv_average", "sequential"]
    monkeypatch.undo()
    native.forget()
