"""benchmarks/host_work.py times the steps of a run whose graphs compute nothing."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
def test_a_run_of_few_steps(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    host = script("host_work")
    monkeypatch.setattr(host, "STEPS", 6)
    monkeypatch.setattr(host, "SKIPPED", 2)
    changes = [*host.SIZES["paper/small"], "training.batches=6", "data.source=stories:30:0", "data.vocab=300"]
    result = host.host_work(changes)
    assert result.keys() == {"main_thread_ms", "all_threads_ms", "batch_ms"}
    assert 0 < result["main_thread_ms"] <= result["all_threads_ms"]
