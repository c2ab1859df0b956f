"""Time until an Extractor's output of a token, and time of the work after it: the paper's critical path.

    y = ((x W_adj) ∘ (z W_0 + ahead)) W_out      one product after the token; all other lags were added before
    ahead += the last inputs, for later outputs    after the output: `seqloom.ops.lag_sum.online.push`

A run is a whole number of the schedule's periods, so that every block occurs with its average frequency.

python benchmarks/latency.py [context …]                 default: 512 4096
"""

import sys
from time import perf_counter

import torch
from harness import append, gate
from tokens import DIM, MATRICES, MIXERS, PEER, Reading

from seqloom.analysis.others import is_loaded, watch
from seqloom.core.state import bound_state
from seqloom.ops.lag_sum import online

CONTEXTS, BATCHES = (512, 4096), (1, 16)


@torch.no_grad()
def latency(reading):
    """Seconds from a token to its output, and of the work after it: two tensors, one number a token of a whole run.

    `reading` is one of an Extractor, see `tokens.Reading`.
    """
    mixer, x, state = reading.mixer, reading.token, bound_state(reading.state)
    times = []
    for _ in range(reading.tokens):
        begun = perf_counter()
        e = online.read(x if mixer.w_in is None else mixer.w_in(x), mixer.w_ext, state)
        y = e if mixer.w_adj is None else mixer.w_adj(x) * e
        if mixer.w_out is not None:
            mixer.w_out(y)
        out = perf_counter()
        online.push(mixer.w_ext, state)
        state["length"] += 1
        times.append((out - begun, perf_counter() - out))
    reading.state = state
    return torch.tensor(times, dtype=torch.float64).unbind(1)


def row(name, context, batch):
    """Microseconds of both parts: median and quartiles of the first; mean, median and longest of the second."""
    reading = Reading(*MIXERS[name], context, batch)
    latency(reading)  # what is paid ahead is there now, and spectra are kept
    others = watch()
    first, then = (1e6 * seconds for seconds in latency(reading))
    median, *quartiles = (float(f"{each:.4g}") for each in first.quantile(torch.tensor([0.5, 0.25, 0.75]).double()))
    return {
        "mixer": name,
        "context": context,
        "batch": batch,
        "dim": DIM,
        "tokens": reading.tokens,
        "us_to_the_output_median": median,
        "us_to_the_output_quartiles": quartiles,
        "us_after_mean": float(f"{then.mean():.4g}"),
        "us_after_median": float(f"{then.median():.4g}"),
        "us_after_longest": float(f"{then.max():.4g}"),
        "loaded": is_loaded(others()),
    }


def main() -> None:
    gate("tests/ops/test_lag_sum.py", "tests/ops/test_lag_sum_online.py")
    for context in [int(word) for word in sys.argv[1:]] or CONTEXTS:
        for batch in BATCHES:
            names = [name for name in MIXERS if name != PEER and (name != "she" or context <= MATRICES)]
            append("latency", [row(name, context, batch) for name in names])


if __name__ == "__main__":
    main()
