"""Writes the reach maps of trained mixers into docs/maps, where the site finds them: a file for each kind of mixer.

    python -m docs.making.trained RUN… [--text FILE]

RUN is a run's folder with its tokenizer. The map is of the first and the last layer that has the mixer, while the model
reads the beginning of the text; derivatives are estimated from random directions (`seqloom.analysis.reach.reach_of`).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

import seqloom
from docs.making.command import exit_code
from docs.making.reached import MAPS, TOKENS, write
from seqloom.analysis.origin import origin
from seqloom.analysis.reach import reach_of
from seqloom.analysis.reading import reading_of
from seqloom.models.decoder import Decoder

PROBES, LEAST = 32, 8
"""random directions per output; the fewest tokens that a map is drawn from"""
STORY = (
    "Once upon a time there was a little princess who lived in a great house at the edge of the forest with her "
    "father, the king, and her old nurse. Every morning she ran down to the garden to see whether the roses had "
    "opened, and every evening the nurse told her a story before she went to sleep. One day a little bird came to the "
    "window and said: "
)


def maps(model: Decoder, ids: list[int]) -> dict[str, dict[int, Tensor]]:
    """|∂y_t/∂x_s| of the first and the last layer of each kind of mixer in the model, by kind and layer."""
    context = model.config.context
    text = torch.tensor([ids[: min(context, TOKENS)]], device=model.device)
    layers: dict[str, list[int]] = {}
    for layer, mixer in enumerate(model.config.mixers):
        layers.setdefault(mixer.kind, []).append(layer)
    return {
        kind: {number: _reach(model, number, text) for number in dict.fromkeys((numbers[0], numbers[-1]))}
        for kind, numbers in layers.items()
    }


def _reach(model: Decoder, layer: int, ids: Tensor) -> Tensor:
    with torch.no_grad():
        reading = reading_of(model, layer, ids)
    return reach_of(reading, reading.x, probes=PROBES)


def store(run: Path, text: str, folder: Path = MAPS) -> list[Path]:
    """Writes the maps of one run; returns the files. ValueError for a run without tokenizer, or a text too short."""
    model = seqloom.load(run)
    if not isinstance(model, Decoder):
        raise ValueError(f"{run} is no decoder: maps are drawn of models that read from left to right")
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer, so it cannot read a text; give the folder of the run")
    ids = model.tokenizer.encode(text)
    if len(ids) < LEAST:
        raise ValueError(f"the text has {len(ids)} tokens; give one of {LEAST} or more")
    source = origin("python -m docs.making.trained RUN")  # without the run's folder, which is private
    return [
        write(kind, description(kind, model, run), layers, source, folder) for kind, layers in maps(model, ids).items()
    ]


def description(kind: str, model: Decoder, run: Path) -> str:
    """The training of the run in words: settings that are not the defaults, sizes, batches, text, seed."""
    config, settings = model.config, json.loads((run / "config.json").read_text(encoding="utf-8"))
    mixer = next(mixer for mixer in config.mixers if mixer.kind == kind)
    changed = [f"{name} {value}" for name, value in mixer.model_dump(exclude_defaults=True).items() if name != "kind"]
    parts = [*changed, f"dim {config.dim}", f"depth {config.depth}", f"context {config.context}"]
    training = settings.get("training")
    if training:
        rows = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        parts += [
            f"{max(json.loads(row)['step'] for row in rows):,} batches of {training['batch']} rows",
            f"text {settings['data']['identity'][:16]}",
            f"seed {training['seed']}",
        ]
    return ", ".join(parts) + "; reading a story"


def main() -> int:
    """Exit code 2 where a run cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", nargs="+", type=Path)
    parser.add_argument("--text", type=Path, help="a text file to read; a short story unless given")
    options = parser.parse_args()
    return exit_code(lambda: _stored(options.run, options.text))


def _stored(runs: Sequence[Path], text: Path | None) -> Iterator[str]:
    story = STORY if text is None else text.read_text(encoding="utf-8")
    for folder in runs:
        yield from (f"{folder.name}: docs/maps/{path.name}" for path in store(folder, story))


if __name__ == "__main__":
    sys.exit(main())
