"""The same settings give the same bits in new processes, whatever else those processes hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.running import MIXERS, SMALL, apart, mixer, same, tiny

PROGRAM = """
import random, sys
import torch
torch.set_num_threads(1)
torch.manual_seed({number}); random.seed({number}); torch.rand({number})   # what came before must not matter
ballast = [torch.ones(n) for n in range({number} * 7, {number} * 50)]       # other addresses
from seqloom.training.settings import resolve
from seqloom.training.train import train
for kind in {kinds}:
    train(resolve("tiny", [*{small}, "model.mixer.kind=" + kind]), sys.argv[1] + "/" + kind)
"""


@pytest.mark.slow
def test_twice_in_fresh_processes_and_once_here(tmp_path: Path) -> None:
    program = PROGRAM.format(number=5, kinds=MIXERS, small=SMALL)
    environment = {**os.environ, "PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, str(tmp_path / "fresh")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    for kind in MIXERS:
        torch.rand(3)
        tiny(tmp_path / "here" / kind, mixer(kind))
        assert apart(tmp_path / "apart" / kind, mixer(kind)) == 0
        same(tmp_path / "apart" / kind, tmp_path / "here" / kind)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    for kind in MIXERS:
        same(tmp_path / "fresh" / kind, tmp_path / "here" / kind)
