"""The table of backends: every op and backend, which are not available and why, which is chosen."""

from collections.abc import Callable

import pytest

from seqloom.cli.work import environment
from seqloom.cli.work.environment import backends
from seqloom.ops import backends as chooser
from seqloom.ops import native
from seqloom.ops.wkv_average import native as wkv_native
from tests.cli.conftest import Answer


def rows(text: str) -> dict[tuple[str, str], str]:
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    return {tuple(line.split()[:2]): line for line in lines[2:]}


@pytest.mark.slow
def test_every_backend_of_every_op_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "SIZES", ((1, 1), (8, 32)))  # the slow test below has them all
    result = rows(backends())
    assert list(result) == [(op, name) for op, names in sorted(chooser.known_backends().items()) for name in names]
    for op in chooser.known_backends().keys() - {"projection"}:  # whose small ones are torch's own
        assert any(" x " in line for (of, _), line in result.items() if of == op), op


@pytest.mark.slow
def test_a_backend_that_is_not_available_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wkv_average = chooser.ops()["wkv_average"]
    monkeypatch.setattr(chooser, "ops", lambda: {"wkv_average": wkv_average})
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    native.forget()
    assert not wkv_native.KERNEL.available()
    result = rows(backends())
    assert "SEQLOOM_NATIVE=0" in result["wkv_average", "native"]
    assert " x " not in result["wkv_average", "native"]
    assert "8 x 32" in result["wkv_average", "sequential"]
    monkeypatch.undo()
    native.forget()


@pytest.mark.slow
def test_the_command_prints_it(seqloom: Callable[..., Answer]) -> None:
    answer = seqloom("list", "--backends")
    assert answer.code == 0
    assert rows(answer.out).keys() == rows(backends()).keys()
