"""Mixers of constant state by length: time of a generated token far into the text, and memory of a training step.

python benchmarks/length.py [KIND …]                     default: all mixers of constant state
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from harness import append, compare, gate, unbound

from seqloom.analysis.measure import peak_bytes
from seqloom.counting.count import count
from seqloom.mixers import kinds
from seqloom.studies.timed_functions import sublayer
from seqloom.training.memory import keep_freed_memory

DIM, NEAR, FAR, TOKENS = 256, 128, 65_536, 16
LENGTHS = (2048, 8192)
CONSTANT = [kind for kind, config in kinds().items() if config.traits.state == "constant"]


class Reading:
    """Called, it reads `TOKENS` tokens on from a state that has read `place` tokens."""

    def __init__(self, kind, place):
        torch.manual_seed(0)
        self.mixer = kinds()[kind]().build(DIM, NEAR).eval().requires_grad_(False)
        self.token = torch.randn(1, DIM)
        self.state = self.mixer.start(1)
        for piece in torch.randn(1, place, DIM).split(4096, 1):
            _, self.state = self.mixer.extend(piece, self.state)

    @torch.no_grad()
    def __call__(self):
        for _ in range(TOKENS):
            _, self.state = self.mixer.step(self.token, self.state, reuse=True)


def token(kind, repeats=15):
    """A token at FAR beside one at NEAR: time and executed operations."""
    runs = {str(place): Reading(kind, place) for place in (NEAR, FAR)}
    operations = {name: count(run).total // TOKENS for name, run in runs.items()}
    found = compare(runs, str(NEAR), repeats, warm=2)
    for spread in found["ms_median_quartiles"].values():
        spread[:] = [float(f"{ms / TOKENS:.4g}") for ms in spread]
    return {"mixer": kind, "what": "token", "dim": DIM, "batch": 1, "operations_a_token": operations, **found}


def memory(kind, T):
    """Bytes that a forward and backward of the mixer over (1, T, DIM) needs: of torch's allocator, and of the process.

    The process's are beyond the idle one's, with what its allocator cannot use again: they are of one run.
    """
    keep_freed_memory()
    torch.manual_seed(0)
    mixer, x = kinds()[kind]().build(DIM, T), torch.randn(1, T, DIM)
    sublayer(mixer, x[:, :16])()  # what is loaded at first use belongs to the idle process
    idle = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    sublayer(mixer, x)()
    return {"resident": resident("VmHWM") - idle, "allocated": peak_bytes(sublayer(mixer, x))}


def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def growth(kind):
    """The memory of a training step at both lengths, each in a process of its own."""
    found = {}
    for T in LENGTHS:
        words = [sys.executable, __file__, "--memory", kind, str(T)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, preexec_fn=unbound)
        found[T] = json.loads(done.stdout)
    near, far = (found[T] for T in LENGTHS)
    grown = {f"{name}_growth": float(f"{far[name] / near[name]:.4g}") for name in near}
    return {"mixer": kind, "what": "memory", "dim": DIM, "batch": 1, "bytes": found, **grown}


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        print(json.dumps(memory(sys.argv[2], int(sys.argv[3]))))
        return
    names = sys.argv[1:] or CONSTANT
    gate("tests/contract/test_reading.py", "tests/contract/test_state.py")
    for kind in names:
        append("length", [token(kind), growth(kind)])


if __name__ == "__main__":
    main()
