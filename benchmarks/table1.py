"""The whole training step of the paper's Table 1 model with six mixers, and the effect of reusing freed memory."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import goals
import limits
import torch
from harness import spread, unbound

from seqloom.analysis.measure import Timing, peak_bytes, race
from seqloom.analysis.others import is_loaded, watch
from seqloom.core.progress import progress
from seqloom.models.decoder import Decoder
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.random_batches import training_step
from seqloom.training.memory import keep_freed_memory
from seqloom.training.settings import resolve

PRESET = "paper/table1"
PEERS = {32: "attention:heads=32", 1: "attention:heads=1"}


def config(name, preset):
    return resolve(preset, [*parse_candidate(name).changes, "data.source=stories"])


def steps(names, preset):
    """A training step for each, of a model of its own."""
    found = {}
    for name in names:
        settings = config(name, preset)
        found[name] = training_step(settings.model, settings.training)
    return found


def of(name, preset, rates, seconds):
    """How near the step is to the machine's limit."""
    settings = config(name, preset)
    model = Decoder(settings.model).eval()
    ids = torch.randint(settings.model.vocab, (settings.training.batch, settings.model.context))
    return rates.columns(*limits.of_step(model, ids), seconds)


def rows(mixers, rounds, rates, preset=PRESET):
    """A row for each model and each peer, of one race."""
    kept, runs = keep_freed_memory(), steps([*mixers, *PEERS.values()], preset)
    others = watch()
    with progress("training steps", rounds * len(runs), "steps") as advance:
        times = race(runs, rounds, warm=2, after=advance)
    busy = is_loaded(others())
    for name, run in runs.items():
        sizes = config(name, preset)
        said = {
            "preset": preset,
            "peak_bytes": peak_bytes(run),
            "freed_memory_kept": kept,
            **of(name, preset, rates, times[name].median),
            **{"dim": sizes.model.dim, "context": sizes.model.context, "batch": sizes.training.batch},
        }
        for heads, peer in PEERS.items():
            if name != peer:
                yield name, peer, goals.step(name, heads), times[name], times[peer], {**said, "loaded": busy}


def serve(names, preset):
    """In a process of its own: takes a step of the model that each line of stdin names, and says its seconds."""
    keep_freed_memory()
    runs = steps(names, preset)
    for name in names * 2:
        runs[name]()
    print("ready", flush=True)
    with suppress(KeyboardInterrupt):  # who asks has it too, and says so
        for line in sys.stdin:
            start = time.perf_counter()
            runs[line.strip()]()
            print(time.perf_counter() - start, flush=True)


def allocator(names, rounds, preset=PRESET):
    """By model: seconds with freed memory kept, then without, in two processes that take turns."""
    words = [sys.executable, str(Path(__file__).with_name("extractors.py")), "--serve", json.dumps([names, preset])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "preexec_fn": unbound}
    times = {name: ([], []) for name in names}
    both = [subprocess.Popen(words, env={**os.environ, "SEQLOOM_KEEP_MEMORY": value}, **pipes) for value in ("1", "0")]
    try:
        for each in both:
            answer(each)
        with progress("with and without freed memory", rounds * len(names), "pairs of steps") as advance:
            for turn in range(rounds):
                for name in names:
                    for place in (0, 1) if turn % 2 else (1, 0):
                        both[place].stdin.write(name + "\n")
                        both[place].stdin.flush()
                        times[name][place].append(float(answer(both[place])))
                    advance()
    finally:
        for each in both:
            with suppress(BrokenPipeError):
                each.stdin.close()
            each.wait()
            each.stdout.close()
    return {name: tuple(Timing(tuple(each)) for each in pair) for name, pair in times.items()}


def answer(process):
    """The next line of a serving process."""
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a process that took training steps ended with exit code {process.wait()}")
    return line.strip()


def allocator_rows(names, rounds, preset=PRESET):
    for name, (kept, freed) in allocator(names, rounds, preset).items():
        said = {"preset": preset, "freed_ms_median_quartiles": spread(freed, 1e3)}
        yield name, "itself, memory freed", None, kept, freed, said
