"""What does a training step cost whose tokens several processes share, next to processes that share its rows?

python benchmarks/sequence.py [--ranks R] [--tokens T]

Models of 6 layers, dim 128, vocabulary 1,000, float32, one thread a process. Both forms read M micro-batches of R rows,
in turns, on the same R processes. `waiting` is the largest share of a step that a process waits for states or their
gradients; a process that never waits for anything else than the pipe of L layers waits 1 - L M / (L M + R - 1), `pipe`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median

import torch
from harness import append, gate

import seqloom
from seqloom.data.random_texts import random_text
from seqloom.training.distributed import join_group
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.optimizers import optimizer
from seqloom.training.settings import resolve
from seqloom.training.step import Learner, Step
from seqloom.training.stretches import InStretches

KINDS = ("gated_delta", "mamba2", "attention")
MICRO_BATCHES = (1, 4)
DEPTH, VOCAB, ROUNDS = 6, 1000, 7
WORKER = "SEQLOOM_BENCHMARK_WORKER"


def work(kind, tokens, count):
    """The row of this group of processes, in rank 0; None in the others."""
    changes = [f"model.mixer.kind={kind}", "training.device=cpu", f"training.accumulate={count}"]
    ranks = int(os.environ["WORLD_SIZE"])
    size = f"training.batch={count * ranks}"
    shared = resolve("tiny", [*changes, size, f"training.sequence={ranks}"]).training
    whole = resolve("tiny", [*changes, size]).training
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "dim": 128, "depth": DEPTH, "context": tokens, "position": "none", "dropout": 0.0}
    model = seqloom.decoder(kind, **sizes).train()
    objective = NextToken(random_text(tokens, VOCAB), tokens, count * ranks)
    with join_group(shared) as group:
        by_rows, by_tokens = Learner(model, objective), Learner(model, objective)
        reader = InStretches(model, group)
        by_tokens.read_by(reader)
        waited = [0.0]
        for name in ("take", "take_back"):
            setattr(reader.relay, name, timed(getattr(reader.relay, name), waited))
        memory = optimizer(model, shared)
        rows = objective.batch(0, 0, model)["ids"].chunk(count)
        forms = {
            "rows": (Step(by_rows, memory, whole, group), [{"ids": part.chunk(ranks)[group.rank]} for part in rows]),
            "sequence": (Step(by_tokens, memory, shared, group), [{"ids": part} for part in rows]),
        }
        divisors = {"rows": [float(count * ranks)] * count, "sequence": [float(count)] * count}
        seconds, shares = {name: [] for name in forms}, []
        for number in range(ROUNDS + 1):
            for name, (step, parts) in forms.items():
                group.meet()
                before, waited[0], sent = time.perf_counter(), 0.0, reader.relay.bytes
                step(parts, divisors[name], lambda losses: None)
                taken = time.perf_counter() - before
                if number and name == "sequence":
                    shares.append(max(share for (share,) in group.gather([waited[0] / taken])))
                    most = max(size for (size,) in group.gather([float(reader.relay.bytes - sent)]))
                if number:
                    seconds[name].append(taken)
    ratios = [one / other for one, other in zip(seconds["sequence"], seconds["rows"], strict=True)]
    return {
        "mixer": kind,
        **sizes,
        "ranks": ranks,
        "micro_batches": count,
        **{f"ms_{name}": round(1e3 * median(each), 2) for name, each in seconds.items()},
        "ratio": round(median(ratios), 3),
        "waiting": round(median(shares), 3),
        "pipe": round(1 - DEPTH * count / (DEPTH * count + ranks - 1), 3),
        "bytes_a_step": int(most),
    }


def timed(call, waited):
    """The same function, whose seconds are added to the number in `waited`."""

    def call_timed(like):
        before = time.perf_counter()
        result = call(like)
        waited[0] += time.perf_counter() - before
        return result

    return call_timed


def main():
    """A row for each mixer and number of micro-batches; a process that this one started prints one."""
    if WORKER in os.environ:
        torch.set_num_threads(1)
        kind, tokens, count = json.loads(os.environ[WORKER])
        row = work(kind, tokens, count)
        if os.environ["RANK"] == "0":
            print(json.dumps(row))
        return
    words = argparse.ArgumentParser(prog="sequence.py", description=__doc__.splitlines()[0])
    words.add_argument("--ranks", type=int, default=2)
    words.add_argument("--tokens", type=int, default=1024)
    gate("tests/training/test_stretches.py")
    given = words.parse_args()
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(given.ranks)]
    torchrun = [sys.executable, "-P", "-m", *launch]
    rows = []
    for kind in KINDS:
        for count in MICRO_BATCHES:
            around = {**os.environ, "OMP_NUM_THREADS": "1", WORKER: json.dumps([kind, given.tokens, count])}
            done = subprocess.run([*torchrun, __file__], env=around, capture_output=True, text=True, check=True)
            rows.append({**json.loads(done.stdout.splitlines()[-1]), "loaded": None})  # the workers use the cores
    append("sequence", rows)


if __name__ == "__main__":
    main()
