"""What the package computed at a known commit: losses of short runs, prices of all mixers, rows of a small comparison.

    python -m tests.recordings.record [FOLDER]         writes losses.json, prices.json and compare.json into FOLDER

`test_recordings.py` holds the float64 losses, the prices and the comparison. Another FOLDER than this one also gets
losses32.json, whose last bits depend on the processor: to compare two versions on one machine, `diff` two folders.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from seqloom.core.cost import NAMES, Cost
from seqloom.core.mixer_config import kinds
from seqloom.data.windows import Windows
from seqloom.models.decoder import Decoder
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.compare import Compare
from seqloom.studies.summary import compare
from seqloom.training.loop import seed_step
from seqloom.training.optimizers import optimizer
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve

HERE = Path(__file__).parent
MIXERS = ("attention", "she", "he", "retention", "rwkv", "mamba")
STEPS = 20
SETTINGS = ("training.device=cpu", "training.batch=8", "model.depth=2", "model.context=24")
SOURCE = "stories:200:0"
COMPARED = ("attention:heads=2", "he", "rwkv")
LOSSES = ("held-out loss", "bits a byte")


def losses(kind: str, dtype: torch.dtype, dropout: float) -> list[float]:
    """The loss (nats per token) of each of the first 20 steps of a tiny run, the whole model in `dtype`."""
    changes = [*SETTINGS, f"data.source={SOURCE}", f"model.mixer.kind={kind}", f"model.dropout={dropout}"]
    config, corpus = with_text(resolve("tiny", changes))
    torch.manual_seed(config.training.seed)
    model = Decoder(config.model).to(dtype).train()
    adam = optimizer(model, config.training)
    windows = Windows(corpus.train, config.model.context, config.data.seed, config.data.within_documents)
    result = []
    for step in range(STEPS):
        batch = windows.batch(step, config.training.batch)
        seed_step(config.training.seed, step, torch.device("cpu"))
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        adam.step()
        adam.zero_grad()
        result.append(loss.item())
    return result


def all_losses(dtype: torch.dtype) -> dict[str, list[float]]:
    """The losses of six mixers, without dropout and with 0.1 of it."""
    return {f"{kind} {dropout}": losses(kind, dtype, dropout) for kind in MIXERS for dropout in (0.0, 0.1)}


def prices() -> dict[str, Any]:
    """Of each causal mixer's examples."""
    names = (
        f"{kind} {json.dumps(example, sort_keys=True)}"
        for kind, config in kinds().items()
        if config.traits.causal != "never"
        for example in config.examples
    )
    return {name: prices_of(name) for name in names}


def prices_of(name: str) -> dict[str, list[int | str]]:
    """At dim 8 and context 6, of a kind and its settings: 1, 5, 9 tokens, and the token there where it streams."""
    kind, _, example = name.partition(" ")
    mixer = kinds()[kind].model_validate({"kind": kind, **json.loads(example)}).build(8, 6)
    return {
        f"{per} {T}": _counts(mixer.cost(T, per))
        for T in (1, 5, 9)
        for per in (("sequence", "token") if mixer.traits.streams else ("sequence",))
        if (mixer.traits.longest or T) >= T
    }


def _counts(cost: Cost) -> list[int | str]:
    """The numbers of a price in the order of its fields, then the critical path in one string."""
    return [*(getattr(cost, name) for name in NAMES), " ".join(cost.path)]


def comparison(folder: Path) -> dict[str, dict[str, float]]:
    """The rows of a comparison of three mixers, two seeds each, trained for 30 batches; its clocks left out."""
    contenders = [parse_candidate(name) for name in COMPARED]
    changes = [*SETTINGS, "training.batches=30"]
    result = compare(Compare(contenders, "tiny", changes, source=SOURCE, seeds=2), folder / "compare")
    return {each.name: {name: each.value(name) for name in LOSSES} for each in result.contenders}


def main(folder: Path) -> None:
    """Writes all recordings into a folder."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        recordings = {
            "losses": all_losses(torch.float64),
            "prices": prices(),
            "compare": comparison(Path(scratch)),
        }
    if folder != HERE:
        recordings["losses32"] = all_losses(torch.float32)
    for name, values in recordings.items():
        (folder / f"{name}.json").write_text(_lines(values), encoding="utf-8")


def _lines(values: dict[str, Any]) -> str:
    """A JSON object with one entry per line."""
    entries = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
