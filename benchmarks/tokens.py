"""Time of one more token after a full context, relative to cached attention with 32 heads; and its critical path.

An Extractor computes blocks of its sums ahead: after every second token a block of one input, after every fourth one of
two, …, once in as many tokens as the context one of all inputs. A run has a whole number of such periods, and the time
per token is the mean over all blocks, the longest included. Attention's tokens take equal times, so it runs few of
them. SHE is left out where its taps alone take more than a few hundred megabytes.

`--latency` times the two parts of an Extractor's token, which are the paper's critical path and the rest:

    y = ((x W_adj) ∘ (z W_0 + ahead)) W_out      one product after the token; all other lags were added before
    ahead += the last inputs, for later outputs    after the output: `seqloom.ops.lag_sum.online.push`

python benchmarks/tokens.py [context …]                 default: 128 512 4096 65536
python benchmarks/tokens.py --latency [context …]       default: 512 4096; rows go to results/latency.jsonl
"""

import argparse
from time import perf_counter

import torch
from harness import append, compare, gate

from seqloom.analysis.others import is_loaded, watch
from seqloom.core.state import bound_state, unread
from seqloom.mixers import kinds
from seqloom.ops.lag_sum import online
from seqloom.ops.lag_sum.online.blocks import longest

DIM = 128
ATTENDED, LEAST = 16, 512
"""tokens of a run of attention; of an Extractor at least"""
CONTEXTS, BATCHES = (128, 512, 4096, 65536), (1, 4, 16)
LATENCY_CONTEXTS, LATENCY_BATCHES = (512, 4096), (1, 16)
MATRICES = 4096
"""the longest context that SHE is read at"""
PEER = "attention-heads=32"
MIXERS = {PEER: ("attention", {"heads": 32})} | {kind: (kind, {}) for kind in ("he", "we", "me", "she")}


class Reading:
    """Called, it reads `tokens` tokens, one `step(reuse=True)` each, from a state that has read at least `context`."""

    def __init__(self, kind, settings, context, batch, dim=DIM):
        torch.manual_seed(0)
        self.mixer = kinds()[kind](**settings).build(dim, context).eval()
        self.token = torch.randn(batch, dim)
        self.state = {
            name: torch.randn(tensor.shape) for name, tensor in self.mixer.start(batch, capacity=context).items()
        } | unread(batch, None)
        self.state["length"] += context + context // 3  # so that rings have wrapped, and begin somewhere
        self.tokens = ATTENDED
        if "origin" in self.state:  # -1: what is paid ahead is worked out from the window, at the first token
            self.state["origin"] = torch.full_like(self.state["length"], -1)
            period = longest(context)
            self.tokens = -(-LEAST // period) * period

    @torch.no_grad()
    def __call__(self):
        for _ in range(self.tokens):
            _, self.state = self.mixer.step(self.token, self.state, reuse=True)


@torch.no_grad()
def latency(reading):
    """Seconds from a token to its output, and of the work after it: two tensors, one number a token of a whole run.

    A run is a whole number of the schedule's periods, so that every block occurs with its average frequency.
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


def latency_row(name, context, batch):
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


def names_at(context):
    """The names of the mixers that are read at a context."""
    return [name for name in MIXERS if name != "she" or context <= MATRICES]


def rows(context, batch, repeats=None):
    """One row a mixer: milliseconds a token, and how often as long as attention's in the same round."""
    names = names_at(context)
    runs = {name: Reading(*MIXERS[name], context, batch) for name in names}
    found = compare(runs, PEER, repeats or (15 if context <= 4096 else 5), warm=1)
    return [row(name, context, batch, runs, found) for name in names]


def row(name, context, batch, runs, found):
    tokens, times = runs[name].tokens, found["ms_median_quartiles"][name]
    median, *quartiles = (float(f"{ms / tokens:.4g}") for ms in times)
    share = runs[PEER].tokens / tokens
    ratio, *between = (float(f"{share * each:.4g}") for each in found["ratio_median_quartiles"][name])
    return {
        "mixer": name,
        "context": context,
        "batch": batch,
        "dim": DIM,
        "tokens": tokens,
        "ms_a_token_median": median,
        "ms_a_token_quartiles": quartiles,
        "ratio_to_attention_32": ratio,
        "ratio_quartiles": between,
        "repeats": found["repeats"],
        "loaded": found["loaded"],
    }


def main() -> None:
    sums = ("lag_sum", "lag_sum_window", "lag_sum_online", "ring")
    gate(*(f"tests/ops/test_{name}.py" for name in sums))
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--latency", action="store_true")
    words.add_argument("contexts", nargs="*", type=int)
    given = words.parse_args()
    contexts = given.contexts or (LATENCY_CONTEXTS if given.latency else CONTEXTS)
    for context in contexts:
        for batch in LATENCY_BATCHES if given.latency else BATCHES:
            if given.latency:
                extractors = [name for name in names_at(context) if name != PEER]
                append("latency", [latency_row(name, context, batch) for name in extractors])
            else:
                append("tokens", rows(context, batch))


if __name__ == "__main__":
    main()
