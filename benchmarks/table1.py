"""The whole training step of the paper's Table 1 model with six mixers."""

import goals
import limits
import torch

from seqloom.analysis.measure import peak_bytes, race
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
