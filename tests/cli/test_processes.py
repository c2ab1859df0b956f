"""What only a separate process can show: loaded modules, signals, and readers that close the pipe."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.at_once import first

pytestmark = pytest.mark.slow

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


HEAVY = """
import sys
import seqloom.face, seqloom.ops, seqloom.training.train
from seqloom.mixers import kinds, mixer_config
[mixer_config({"kind": kind}) for kind in kinds()]
loaded = {"torch._dynamo", "torch._inductor", "sympy", "scipy.stats", "altair"} & set(sys.modules)
assert not loaded, loaded
"""


def test_no_command_loads_what_takes_as_long_as_torch() -> None:
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


MISTAKES = """
import contextlib, io, json, sys
from seqloom.cli import command
answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(words)
    heavy = sorted({"torch", "numpy", "scipy", "tokenizers"} & set(sys.modules))
    answers.append([code, out.getvalue(), err.getvalue(), heavy])
print(json.dumps(answers))
"""
WRONG = {
    "train tiny --out new --set model.mixer.kind=atention": "did you mean 'attention'?",
    "train tiny --out new --set model.mixer.group=2": "did you mean 'groups'?",
    "train tiny --out new --set training.lr=-1": "training.lr: input should be greater than 0, not -1",
    "train tiny --out new --set training.lrr=1": "did you mean 'lr'?",
    "train tiny --out new --set model.mixer.groups=99999999": "groups must be at most 16,777,216, not 99999999",
    "train tiyn --out new": "unknown preset 'tiyn'",
    "cost shee": "unknown mixer 'shee'; did you mean 'she'?",
    "cost she --groups 0": "groups: input should be greater than or equal to 1, not 0",
    "cost she --grops 1": "unknown option '--grops'; did you mean '--groups'?",
    "cost tiny --set model.depth=0": "model.depth: input should be greater than or equal to 1, not 0",
    "cost tiny --all --sort totl": "did you mean 'total'?",
    "bench shee --against he": "unknown mixer 'shee'",
    "bench she --against attention:heads=none": "heads: input should be a valid integer, not 'none'",
    "compare she attention:head=2 --out new --data books": "did you mean 'heads'?",
    "compare --all --out new --set training.batch=0": "training.batch: input should be greater than or equal to 1",
    "study recall mamba:state=4 --out new": "did you mean 'state_dim'?",
}
"""what a command is, and what its one line holds; none of it loads torch"""


def asked_without_torch(commands: list[str]) -> list[tuple[int, str, str]]:
    """The answers of the commands in a process of their own, which has not loaded what is heavy."""
    words = json.dumps([command.split() for command in commands])
    done = subprocess.run([sys.executable, "-c", MISTAKES, words], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    for command, (*_, heavy) in zip(commands, answers, strict=True):
        assert not heavy, (command, heavy)
    return [(code, out, err) for code, out, err, _ in answers]


def test_lists_load_no_torch() -> None:
    commands = ["list", "list she", "list --family aft --wide --json", "settings", "settings lr", "settings --json"]
    for command, (code, out, err) in zip(commands, asked_without_torch(commands), strict=True):
        assert (code, err) == (0, ""), command
        assert out.strip()


def test_mistakes_load_no_torch() -> None:
    for command, (code, out, err) in zip(WRONG, asked_without_torch(list(WRONG)), strict=True):
        assert (code, out) == (2, ""), command
        assert WRONG[command] in err
        assert len(err.splitlines()) == 1, err


def test_debug_shows_a_traceback() -> None:
    done = subprocess.run([*PROGRAM, "trian", "--debug"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "trian" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "{run}", "Once", "--max-tokens", "800"]], ids=len)
def test_a_reader_that_leaves(arguments: list[str], trained: Path) -> None:
    words = [word.replace("{run}", str(trained)) for word in arguments]
    quiet = os.environ | {"SEQLOOM_NATIVE": "0"}  # on a bare machine it would say what it compiles
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=quiet) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 10)
        process.stdout.close()
        output = process.stderr.read()
        process.wait(60)
    assert output == b""
    assert process.returncode in (0, 1)


@pytest.mark.parametrize("signals", first(1, [[signal.SIGINT], [signal.SIGTERM, signal.SIGINT]]), ids=str)
def test_signals_save_and_the_same_command_goes_on(tmp_path: Path, signals: list[signal.Signals]) -> None:
    folder = tmp_path / "run"
    train = [*PROGRAM, "train", "tiny", "--out", str(folder), "--set", "training.batches=1000000"]
    train += ["--set", "training.save_every=1000000"]
    before = 0
    for number in signals:
        with subprocess.Popen(train, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if not _waits_for(folder / "metrics.jsonl", before + 5):
                process.kill()  # or it would train for hours
                raise AssertionError(process.communicate())
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, err
        assert out == ""
        assert "Traceback" not in err
        rows = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        step = rows[-1]
        assert rows == list(range(1, step + 1))
        assert err.splitlines()[-1].startswith(f"stopped after step {step:,} and saved; the same command continues")
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
