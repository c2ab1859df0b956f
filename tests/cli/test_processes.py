"""What only a process of its own can show: what is loaded, signals, and readers that leave."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from seqloom.cli import run; run()"]
LIGHT = """
import sys
import seqloom
dir(seqloom)
from seqloom.cli import command
assert command(["--help"]) == command(["train", "--help"]) == 0
assert command(["trian"]) == 2
heavy = {"torch", "numpy", "scipy", "tokenizers", "yaml", "seqloom.core.config"} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_loads_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_debug_shows_a_traceback() -> None:
    done = subprocess.run([*PROGRAM, "trian", "--debug"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "trian" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "{run}", "Once", "--max-tokens", "3000"]], ids=len)
def test_a_reader_that_leaves(arguments: list[str], trained: Path) -> None:
    words = [word.replace("{run}", str(trained)) for word in arguments]
    quiet = os.environ | {"SEQLOOM_NATIVE": "0"}  # on a bare machine it would say what it compiles
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=quiet) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 10)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert said == b""
    assert process.returncode in (0, 1)


def test_signals_save_and_the_same_command_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train = [*PROGRAM, "train", "tiny", "--out", str(folder), "--set", "training.batches=1000000"]
    train += ["--set", "training.save_every=1000000"]
    before = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(train, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert _waits_for(folder / "metrics.jsonl", before + 5), process.communicate()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, err
        assert out == ""
        assert "Traceback" not in err
        rows = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        step = rows[-1]
        assert rows == list(range(1, step + 1))
        assert err.splitlines()[-1].startswith(f"stopped after step {step:,} and saved; the same command goes on")
        assert (folder / "checkpoints" / f"step_{step:08d}").is_dir()
        assert (f"going on after step {before:,} of 1,000,000" in err) == (before > 0)
        before = step


def _waits_for(path: Path, rows: int, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.is_file() and path.read_bytes().count(b"\n") > rows:
            return True
        time.sleep(0.02)
    return False
