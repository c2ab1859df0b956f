"""Recordings of work as a graph, with the graphs of `recorded` in place of CUDA's."""

import gc
import weakref
from functools import lru_cache

import pytest
import torch

from seqloom.core import recording
from seqloom.core.recording import WARM_UP, fill, graphs, graphs_wanted, keep, reason, record, warm_up
from tests.training.recorded import on_a_cpu


class Mask:
    """Something that is read by a graph."""


@lru_cache(maxsize=1)
def mask(number: int) -> Mask:
    return Mask()


def test_what_a_cache_drops_lives_as_long_as_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    x = torch.ones(2)
    work = record(lambda: (keep(mask(0)) and x) * 2)
    held = weakref.ref(mask(0))
    other = weakref.ref(keep(mask(1)))
    mask(2)
    gc.collect()
    assert held() is not None
    assert other() is None, "nothing is held outside of a recording"
    x.fill_(3)
    work.replay()
    assert work.result.tolist() == [6, 6]
    del work
    gc.collect()
    assert held() is None


def test_a_recording_that_fails_keeps_nothing_later(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    with pytest.raises(RuntimeError, match="reads from the device"):
        record(lambda: torch.ones(()).item())
    assert recording._kept.get() is None


def test_warming_up_waits_for_its_stream_where_it_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    waits: list[str] = []

    class Stream:
        def __init__(self, name: str = "side") -> None:
            self.name = name

        def wait_stream(self, other: "Stream") -> None:
            waits.append(f"{self.name} for {other.name}")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream("current"))
    calls: list[int] = []
    warm_up(lambda: calls.append(1))
    assert len(calls) == WARM_UP
    with pytest.raises(ValueError, match="no"):
        warm_up(lambda: int("no"))
    assert waits == ["side for current", "current for side"] * 2


def test_buffers_have_the_shape_of_what_fills_them() -> None:
    buffer = torch.zeros(2)
    fill([buffer], [torch.ones(2)])
    assert buffer.tolist() == [1, 1]
    with pytest.raises(AssertionError, match="one shape"):
        fill([buffer], [torch.ones(1)])
    with pytest.raises(ValueError, match="shorter"):
        fill([buffer], [])


def test_whether_graphs_are_wanted() -> None:
    with graphs(wanted=False):
        with graphs(wanted=True):
            assert graphs_wanted()
        assert not graphs_wanted()
    assert graphs_wanted()


def test_the_reason_of_an_error_is_one_line() -> None:
    assert reason(RuntimeError("\n no room\nfor more")) == "no room"
    assert reason(RuntimeError()) == "RuntimeError"
    second = RuntimeError("the recording was not ended")
    second.__context__ = torch.cuda.OutOfMemoryError("no room for 2 GiB")
    assert reason(second) == "no room for 2 GiB"
    assert len(reason(RuntimeError("a" * 999))) == 200
