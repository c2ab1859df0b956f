"""A training step of each mixer, interleaved, and what keeping freed memory is worth (`--freed` to go without)."""

import statistics
import sys
import time

import torch
from rows import append

from seqloom.experiments.compare import contender
from seqloom.experiments.demo import MIXERS
from seqloom.models.decoder import Decoder
from seqloom.training.loop import updates
from seqloom.training.memory import keep_freed_memory
from seqloom.training.optim import optimizer
from seqloom.training.settings import resolve


class Noise:
    """Windows of random tokens: a step costs the same whatever it reads."""

    def __init__(self, context: int, vocab: int) -> None:
        self.context, self.vocab = context, vocab

    def batch(self, step: int, batch: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        return torch.randint(self.vocab, (batch, self.context + 1), generator=generator)


def main() -> None:
    kept = "--freed" not in sys.argv and keep_freed_memory()
    preset = next((word for word in sys.argv[1:] if not word.startswith("--")), "paper/small")
    steps, times = {}, {}
    for name, changes in ((each.name, each.changes) for each in map(contender, MIXERS)):
        config = resolve(preset, [*changes, "data.source=stories"])
        model = Decoder(config.model).train()
        noise = Noise(config.model.context, config.model.vocab)
        steps[name] = updates(model, optimizer(model, config.training), noise, config.training)
        times[name] = []
    for number in range(17):
        for name, step in steps.items():
            done = step(number)
            time.sleep(0.001)
            if number >= 2:
                times[name].append(1e3 * done.seconds)
    peer = statistics.median(times["attention-heads=32"])
    append("step", [row(preset, name, kept, ms, peer) for name, ms in times.items()])


def row(preset, name, kept, ms, peer):
    low, middle, high = statistics.quantiles(ms, n=4)
    return {
        "preset": preset,
        "mixer": name,
        "freed_memory_kept": bool(kept),
        "ms_median": round(middle, 2),
        "ms_quartiles": [round(low, 2), round(high, 2)],
        "ratio_to_attention_32": round(middle / peer, 3),
    }


if __name__ == "__main__":
    main()
