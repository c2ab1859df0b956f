"""Times of every mixer in two checkouts: the second relative to the first.

    sublayer    forward and backward of ROWS × CONTEXT × DIM, with the projections
    token       TOKENS steps of one text, which end at CONTEXT tokens

Each checkout runs in a process of its own, which answers one timing at a time; the two take turns. Times are CPU time
of one thread, so that other processes affect them only through the shared caches.

python benchmarks/versions.py BEFORE AFTER [mixer …]           two folders, each a checkout; default: all mixers
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import quantiles

from harness import append, gate

from seqloom.analysis.others import is_loaded, watch

ROWS, CONTEXT, DIM, TOKENS = 4, 512, 128, 64
ROUNDS = 9
WORKER = f"""
import sys, time, torch
torch.set_num_threads(1)
import seqloom
print(*seqloom.list_mixers(), flush=True)
runs = {{}}
def prepare(kind, what):
    torch.manual_seed(0)
    mixer = seqloom.mixer(kind, dim={DIM}, context={CONTEXT})
    if what == "token":
        with torch.no_grad():
            mixer.eval()
            state = mixer.extend(torch.randn(1, {CONTEXT - TOKENS}, {DIM}), mixer.start(1))[1]
        x = torch.randn({TOKENS}, 1, {DIM})
        def run(state=state):
            with torch.no_grad():
                for token in x:
                    state = mixer.step(token, state)[1]
        return run
    x = torch.randn({ROWS}, {CONTEXT}, {DIM}, requires_grad=True)
    dy = torch.randn({ROWS}, {CONTEXT}, {DIM})
    return lambda: mixer(x).backward(dy)
for line in sys.stdin:
    key = tuple(line.split())
    if key not in runs:
        runs.clear()
        runs[key] = prepare(*key)
        runs[key](), runs[key]()
    start = time.process_time()
    runs[key]()
    print(time.process_time() - start, flush=True)
"""


class Checkout:
    """A process that times the mixers of one checkout."""

    def __init__(self, folder):
        sources = Path(folder) / "src" if (Path(folder) / "src").is_dir() else Path(folder)
        environment = os.environ | {"PYTHONPATH": str(sources.resolve()), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.commit = subprocess.check_output(["git", "-C", folder, "rev-parse", "--short", "HEAD"], text=True).strip()
        self.mixers = self.process.stdout.readline().split()

    def seconds(self, mixer, what):
        print(mixer, what, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def compared(before, after, mixer, what):
    """The row of a mixer: medians in ms, and the ratio round by round."""
    others = watch()
    times = [(before.seconds(mixer, what), after.seconds(mixer, what)) for _ in range(ROUNDS + 1)][1:]
    low, median, high = quantiles((second / first for first, second in times), n=4, method="inclusive")
    ms = [1e3 * sorted(column)[ROUNDS // 2] for column in zip(*times, strict=True)]
    return {
        "mixer": mixer,
        "what": what,
        **{"before": before.commit, "after": after.commit},
        "ms_before_after": [float(f"{value:.4g}") for value in ms],
        "ratio_median_quartiles": [float(f"{value:.4g}") for value in (median, low, high)],
        "repeats": ROUNDS,
        "loaded": is_loaded(others()),
    }


def main() -> None:
    """Two rows for each mixer."""
    gate("tests/recordings")
    before, after = Checkout(sys.argv[1]), Checkout(sys.argv[2])
    names = sys.argv[3:] or [name for name in before.mixers if name in after.mixers]
    for name in names:
        append("versions", [compared(before, after, name, what) for what in ("sublayer", "token")])


if __name__ == "__main__":
    main()
