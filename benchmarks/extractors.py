"""The Extractors against their speed goals: sublayers and whole training steps, timed in turns with attention.

python benchmarks/extractors.py                         everything; or some of it:
    --sublayers     forward and backward in float32, of each shape that has a goal
    --portable      the same without native code
    --step          a training step of the paper's Table 1 model
    --bf16          sublayers under autocast to bfloat16, next to float32

A row is written as soon as it is measured; all are printed at the end or on interruption. tokens.py times generated
tokens.
"""

import argparse
import os
import subprocess
import sys
from functools import partial

import goals
import limits
import sublayers
import table1
import torch
from harness import ROOT, append, gate, spread, unbound

from seqloom.core.table import table
from seqloom.training.memory import keep_freed_memory

SECTIONS = ("sublayers", "portable", "step", "bf16")
HEAD = ("what", "rows x tokens x dim", "mixer", "against", "goal", "measured", "quartiles", "met", "% of limit")
NATIVE = "SEQLOOM_NATIVE"


def shape(text):
    """64x128x128: rows, tokens, channels."""
    B, T, D = map(positive, text.split("x"))
    return B, T, D


def positive(text):
    """A whole number from 1 on."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def listed(text):
    """he,we: Extractors by name."""
    names = text.split(",")
    if not set(names) <= set(goals.MIXERS):
        raise ValueError
    return names


def parser():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for section in SECTIONS:
        words.add_argument(f"--{section}", action="store_true")
    words.add_argument("--shape", type=shape, action="append", help="as 64x128x128; may be given again")
    words.add_argument("--mixers", type=listed, default=list(goals.MIXERS), help="as he,we")
    words.add_argument("--rounds", type=positive, default=5, help="in which all take turns")
    return words


def jobs(sections, given):
    """What to measure, piece by piece: each its name and a function that yields what `row` takes."""
    for section in sections:
        rates = limits.rates(torch.bfloat16 if section == "bf16" else torch.float32)
        if section == "step":
            yield section, partial(table1.rows, given.mixers, given.rounds, rates)
        else:
            run = {
                "sublayers": sublayers.beside_attention,
                "portable": partial(sublayers.beside_attention, portable=True),
                "bf16": sublayers.shortened_beside_itself,
            }[section]
            for each in given.shape or goals.SUBLAYER:
                yield section, partial(run, each, [m for m in given.mixers if goals.able(m, each)], given.rounds, rates)


def row(what, name, peer, goal, time, other, said):
    """A row for results/extractors.jsonl."""
    ratio, *between = spread(time.over(other))
    ms, *around = spread(time, 1e3)
    return {
        **{"mixer": name, "what": what, "against": peer, "goal": goal, "ratio_median": ratio},
        **{"ratio_quartiles": between, "met": goals.met(ratio, goal), "ms_median": ms, "ms_quartiles": around},
        **{"against_ms_median": spread(other, 1e3)[0], **said, "repeats": len(time.times)},
        "threads": torch.get_num_threads(),
    }


def line(found):
    """The same for people."""
    sizes = sublayers.written(found.get(name, "-") for name in ("batch", "context", "dim"))
    quartiles = " … ".join(f"{each:.3g}" for each in found["ratio_quartiles"])
    names = (found["what"], sizes, found["mixer"], found["against"])
    return (*names, found["goal"], found["ratio_median"], quartiles, found["met"], found.get("percent_of_limit"))


def without_native(words):
    """The same command in a process that has no native code; its exit code."""
    kept = [word for word in words if word.removeprefix("--") not in SECTIONS]
    command = [sys.executable, __file__, "--portable", *kept]
    return subprocess.run(command, env={**os.environ, NATIVE: "0"}, check=False, preexec_fn=unbound).returncode


def main() -> None:
    given, unknown = parser().parse_known_args()
    gate(*sorted(str(each.relative_to(ROOT)) for each in (ROOT / "tests/ops").glob("test_lag_sum*.py")))
    if unknown:
        parser().error(f"unknown: {' '.join(unknown)}")
    sections = [section for section in SECTIONS if getattr(given, section)] or list(SECTIONS)
    elsewhere = "portable" in sections and os.environ.get(NATIVE) != "0"
    keep_freed_memory()
    found, code = [], 0
    try:
        for what, run in jobs([each for each in sections if each != "portable" or not elsewhere], given):
            for each in run():
                found.append(row(what, *each))
                append("extractors", found[-1:])
    except KeyboardInterrupt:
        code = 130
    if found:
        print(table(HEAD, [line(each) for each in found]), flush=True)
    raise SystemExit(code or (without_native(sys.argv[1:]) if elsewhere else 0))


if __name__ == "__main__":
    main()
