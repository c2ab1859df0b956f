"""Ctrl-C at any moment, and environments that lack something: each in its own process, forked from this table."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED = """
import os, signal, sys
target_name = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == target_name:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from seqloom.cli import run
run()
"""
PROGRAM = [sys.executable, "-c", "from seqloom.cli import run; run()"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "typer",
        "torch",
        "torch.nn",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "yaml",
                "numpy",
                "torch._C",
                "tokenizers",
                "seqloom.training.train",
                "seqloom.mixers.state_space.mamba",
            )
        ),
    ],
)
def test_ctrl_c_while_a_module_is_imported(module: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", INTERRUPTED, module, "train", "tiny", "--out", "new"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.15, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
def test_ctrl_c_at_a_moment(wait: float, tmp_path: Path) -> None:
    train = [*PROGRAM, "train", "tiny", "--out", "new", "--set", "training.batches=1000000"]
    with subprocess.Popen(train, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("stopped")


ENVIRONMENTS = {
    "no home": ({"HOME": "/proc/nowhere", "SEQLOOM_CACHE": ""}, "cannot be written"),
    "cache is a file": ({"SEQLOOM_CACHE": os.devnull}, "cannot be written"),
    "compiler": ({"CC": "gcc '"}, "the environment's CC is no command"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_that_lacks_something(name: str, tmp_path: Path) -> None:
    variables, message = ENVIRONMENTS[name]
    environment = {**os.environ, "SEQLOOM_CACHE": str(tmp_path / "cache"), **variables}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [*PROGRAM, "train", "tiny", "--out", "new", "--set", "training.batches=1"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("seqloom: the portable code runs")]
    assert len(lines) == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
