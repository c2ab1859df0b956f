"""Writes the reach maps of trained mixers into docs/maps, where the site finds them: a file for each kind of mixer.

    python -m docs.making.trained RUN… [--text FILE]

RUN is a run's folder with its tokenizer. The map is of the first and the last layer that has the mixer, while the model
reads the beginning of the text; slopes are estimated from random directions (`seqloom.analysis.reach.reach_of`).
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from torch import Tensor

import seqloom
from docs.making.reached import MAPS, TOKENS, write
from seqloom.analysis.origin import origin
from seqloom.analysis.reach import reach_of
from seqloom.models.decoder import Decoder

PROBES, LEAST = 32, 8
"""random directions per output; tokens that make a map"""
STORY = (
    "Once upon a time there was a little princess who lived in a great house at the edge of the forest with her "
    "father, the king, and her old nurse. Every morning she ran down to the garden to see whether the roses had "
    "opened, and every evening the nurse told her a story before she went to sleep. One day a little bird came to the "
    "window and said: "
)


def maps(model: Decoder, ids: list[int]) -> dict[str, dict[int, Tensor]]:
    """|∂y_t/∂x_s| of the first and the last layer of each kind of mixer in the model, by kind and layer."""
    context = model.config.context
    read = torch.tensor([ids[: min(context, TOKENS)]], device=model.token.weight.device)
    layers: dict[str, list[int]] = {}
    for layer, mixer in enumerate(model.config.mixers):
        layers.setdefault(mixer.kind, []).append(layer)
    return {
        kind: {layer: _reach(model, layer, read) for layer in dict.fromkeys((own[0], own[-1]))}
        for kind, own in layers.items()
    }


def _reach(model: Decoder, layer: int, ids: Tensor) -> Tensor:
    mixer = model.blocks[layer].mixer
    caught: list[Tensor] = []
    hook = mixer.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    try:
        with torch.no_grad():
            model.features(ids)
    finally:
        hook.remove()
    return reach_of(mixer, caught[0], probes=PROBES)


def keep(run: Path, text: str, folder: Path = MAPS) -> list[Path]:
    """The files that are written for one run. ValueError where it has no tokenizer, or the text is too short."""
    model = seqloom.load(run)
    if not isinstance(model, Decoder):
        raise ValueError(f"{run} is no decoder: only a model that reads from left to right is drawn")
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer, so it cannot read a text; give the run's own folder")
    ids = model.tokenizer.encode(text)
    if len(ids) < LEAST:
        raise ValueError(f"the text has {len(ids)} tokens; give one of {LEAST} or more")
    source = origin("python -m docs.making.trained RUN")  # without the run's folder, which is private
    return [
        write(kind, description(kind, model, run), layers, source, folder) for kind, layers in maps(model, ids).items()
    ]


def description(kind: str, model: Decoder, run: Path) -> str:
    """What was trained, and for how long: settings that are not the defaults, sizes, text, batches, seed."""
    config, settings = model.config, json.loads((run / "config.json").read_text(encoding="utf-8"))
    mixer = next(mixer for mixer in config.mixers if mixer.kind == kind)
    other = [f"{name} {value}" for name, value in mixer.model_dump(exclude_defaults=True).items() if name != "kind"]
    parts = [*other, f"dim {config.dim}", f"depth {config.depth}", f"context {config.context}"]
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
    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    asked.add_argument("run", nargs="+", type=Path)
    asked.add_argument("--text", type=Path, help="a text file to read; a short story unless given")
    given = asked.parse_args()
    try:
        text = given.text.read_text(encoding="utf-8") if given.text else STORY
        for run in given.run:
            for path in keep(run, text):
                print(f"{run.name}: docs/maps/{path.name}")
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
