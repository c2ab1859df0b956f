"""The commands in a process of their own: what they serve; Ctrl-C; 500 requests, half of them left, leave nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from seqloom.runs.metrics import Metrics
from tests.play.conftest import save_model

pytestmark = pytest.mark.slow


@contextmanager
def serving(*words: str, cwd: Path | None = None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A command that serves, and the address that it prints."""
    whole = [sys.executable, "-m", "seqloom", *words, "--port", "0", "--no-browser"]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        found = re.search(r"http://[\d.:]+", line)
        assert found is not None, line
        yield started, found[0]
        started.kill()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    save_model(tmp_path / "runs" / "gru", "gru", 1)
    with serving("play", str(tmp_path / "runs")) as started:
        yield started


def test_without_arguments_the_models_that_come_with_it_write(tmp_path: Path) -> None:
    with serving("play", cwd=tmp_path) as (_, url):
        names = [model["id"] for model in httpx.get(f"{url}/v1/models", timeout=60).json()["data"]]
        assert names == ["attention", "gated_delta", "he", "rwkv7"]
        for name in names:
            body = {"model": name, "prompt": "Once upon a time", "max_tokens": 8, "seed": 0}
            answer = httpx.post(f"{url}/v1/completions", json=body, timeout=120).json()
            assert len(answer["choices"][0]["text"]) > 4


def test_watch_waits_for_trainings(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with serving("watch", cwd=tmp_path) as (_, url):
        assert httpx.get(f"{url}/api/live", timeout=60).json() == {"runs": []}
        save_model(runs / "gru", "gru", 1)
        with Metrics(runs / "gru" / "metrics.jsonl") as metrics:
            metrics.append({"step": 1, "loss": 2.5, "seconds": 0.5})
        (run,) = httpx.get(f"{url}/api/live", timeout=60).json()["runs"]
        assert run["name"] == "runs/gru"
        assert run["loss"] == [[1, 2.5]]


def test_ctrl_c(process: tuple["subprocess.Popen[str]", str]) -> None:
    started, url = process
    body = {"model": "runs/gru", "prompt": "Once", "max_tokens": 16_000, "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
        next(response.iter_lines())
        started.send_signal(signal.SIGINT)
        code = started.wait(60)
    assert code == 130
    assert started.stderr is not None
    assert "Traceback" not in started.stderr.read()


def test_500_requests_with_cancels_leave_memory_and_handles_as_they_were(
    process: tuple["subprocess.Popen[str]", str],
) -> None:
    started, url = process

    def ask(count: int) -> None:
        for number in range(count):
            long = number % 2 == 0
            body = {"model": "runs/gru", "prompt": "Once", "max_tokens": 2000 if long else 5, "stream": long, "n": 2}
            with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
                assert response.status_code in (200, 429)
                if long:
                    next(response.iter_lines())
                else:
                    response.read()

    def used() -> tuple[int, int]:
        pages = int(Path(f"/proc/{started.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{started.pid}/fd"))

    ask(100)
    memory, handles = used()
    ask(500)
    more, open_now = used()
    assert more - memory < 16e6
    assert open_now - handles < 10
