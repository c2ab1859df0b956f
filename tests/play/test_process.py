"""The command in a process of its own: Ctrl-C ends it; 500 requests, half of them left, leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.play.conftest import save_model

pytestmark = pytest.mark.slow


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    save_model(tmp_path / "runs" / "gru", "gru", 1)
    words = [sys.executable, "-m", "seqloom", "play", str(tmp_path / "runs"), "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        found = re.search(r"http://[\d.:]+", line)
        assert found is not None, line
        yield started, found[0]
        started.kill()


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
