"""Tokens a CPU second of texts that are written side by side, by their number; and what a text costs that joins.

python benchmarks/batcher.py [--tokens N]

Models of 4 layers, dim 128, vocabulary 5,000, context 256, not trained, one thread. Each of `rows` texts continues a
prompt of 32 tokens by N tokens, drawn from the 50 likeliest. The time of a join is that of copying the state after a
prompt into a slot of 32, and by how much the next step is longer, in steps of the 32 rows; the prompt is read before,
in pieces.
"""

import argparse
import time

import torch
from harness import append, gate

import seqloom
from seqloom.analysis.measure import race
from seqloom.core.rows import put
from seqloom.generation.batcher import Batcher
from seqloom.generation.requests import Request
from seqloom.generation.sample import Sampling

KINDS = ("attention", "he", "gated_delta", "mamba2")
ROWS = (1, 8, 32)
PROMPT, ROUNDS = 32, 3
SIZES = {"vocab": 5000, "dim": 128, "depth": 4, "context": 256, "position": "none", "dropout": 0.0}


def write(model, rows, tokens):
    """Tokens a CPU second."""
    batcher = Batcher(model, rows=rows, mode="stream")
    generator = torch.Generator().manual_seed(0)
    began = time.process_time()
    for seed in range(rows):
        prompt = torch.randint(1, 5000, (PROMPT,), generator=generator).tolist()
        batcher.submit([Request(prompt, tokens, Sampling(top_k=50, seed=seed))])
    batcher.run()
    return rows * tokens / (time.process_time() - began)


@torch.no_grad()
def join(model):
    """The time of a join, relative to that of a step of 32 rows."""
    ids = torch.randint(5000, (32, 96), generator=torch.Generator().manual_seed(0))
    _, state = model.extend(ids, model.start(32, capacity=256))
    _, one = model.extend(ids[:1, :PROMPT], model.start(1))
    held = {"state": state}

    def step():
        _, held["state"] = model.step(ids[:, 0], held["state"], reuse=True)

    def enter():
        held["state"] = put(held["state"], 7, one)
        step()

    times = race({"step": step, "join": enter}, 40, warm=5)
    return times["join"].over(times["step"]).median - 1


def main():
    """A row for each mixer."""
    words = argparse.ArgumentParser(prog="batcher.py", description=__doc__.splitlines()[0])
    words.add_argument("--tokens", type=int, default=200)
    gate("tests/generation/test_batcher.py", "tests/contract/test_rows.py")
    given = words.parse_args()
    torch.set_num_threads(1)
    rows = []
    for kind in KINDS:
        torch.manual_seed(0)
        model = seqloom.decoder(kind, **SIZES).eval()
        write(model, 2, 8)
        best = {rows: max(write(model, rows, given.tokens) for _ in range(ROUNDS)) for rows in ROWS}
        speeds = {f"tokens_a_cpu_second_{count}_rows": round(speed) for count, speed in best.items()}
        gain = round(best[32] / best[1], 2)
        rows.append(
            {"mixer": kind, **SIZES, "tokens": given.tokens, **speeds, "gain_32": gain, "join_in_steps": join(model)}
        )
    append("batcher", rows)


if __name__ == "__main__":
    main()
