"""Models compared fairly: one preset, one text, one order of batches; what differs is the mixer alone.

    compare([contender("attention:heads=32"), contender("she")], "paper/small", ..., out=Path("runs/compare"))

Each contender is a run of its own per seed, in OUT/NAME/seed-N, and goes on where it stopped. The seed draws the
initial weights and the dropout; the text, its held-out part and the order of the batches stay what they are. OUT itself
belongs to the settings that all share, and refuses others. What is found is kept in OUT/comparison.json, for `report`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from seqloom.analysis.match import By, Equal
from seqloom.analysis.origin import origin
from seqloom.data.prepare import Corpus
from seqloom.experiments.board import Board
from seqloom.experiments.contenders import Contender, sized
from seqloom.experiments.kept import Trained, kept
from seqloom.runs.layout import open_run, read_json, write_json
from seqloom.runs.lock import lock
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom.training.train import train, with_text

KEPT = "comparison.json"
PROMPT = "Once upon a time"


@final
class Stopped(Exception):
    """A signal stopped a run, which was saved; `code` is the exit code of a process that a signal ends."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"stopped and saved; the same command goes on with {name}")
        self.code = code


def compare(
    contenders: Sequence[Contender],
    preset: str,
    changes: Sequence[str],
    out: Path,
    *,
    source: str | None = None,
    seeds: int = 1,
    equal: Equal | None = None,
    peer: Contender | None = None,
    by: By | None = None,
    prompts: Sequence[str] = (PROMPT,),
    command: str = "",
) -> dict[str, Any]:
    """Trains every contender once a seed, weighs all, and returns what it keeps in OUT/comparison.json.

    With `equal`, the `peer` resized to equal each other contender in that quantity stands beside it. ValueError where
    names repeat, settings do not fit, or OUT holds a comparison of other settings; `Stopped` when a signal ends it.
    """
    names = [each.name for each in contenders]
    if not contenders or len(set(names)) < len(names):
        raise ValueError(f"a comparison needs contenders of different names, not {', '.join(names) or 'none'}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, not {seeds}")
    if (equal is None) != (peer is None):
        raise ValueError("a model to be sized needs both: what it is, and the quantity to be equal in")

    def settings(contender: Contender) -> RunConfig:
        config = resolve(preset, [*changes, *contender.changes], source)
        return config.model_copy(update={"model": config.model.model_copy(update={"vocab": vocab})})

    first, corpus = with_text(resolve(preset, [*changes, *contenders[0].changes], source))
    vocab = first.model.vocab
    configs = {each.name: settings(each) for each in contenders}
    _claim(out, first, corpus)
    every = list(contenders)
    if equal is not None and peer is not None:
        every += _beside(out, contenders, configs, peer, settings(peer), equal, by)
        configs |= {each.name: settings(each) for each in every if each.name not in configs}
    trained = _trained(every, configs, out, seeds)
    said = kept(trained, corpus, preset, changes, equal, prompts)
    said["origin"] = origin(command)
    write_json(out / KEPT, said)
    return said


def _trained(contenders: Sequence[Contender], configs: dict[str, RunConfig], out: Path, seeds: int) -> list[Trained]:
    """Trains all; seed by seed, so that every contender has one run before any has two."""
    found = {each.name: Trained(each, configs[each.name], out) for each in contenders}
    with Board([(name, seed) for seed in range(seeds) for name in found]) as board:
        for seed in range(seeds):
            for name, config in configs.items():
                seeded = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
                outcome = train(seeded, out / name / f"seed-{seed}", say=board.say, show=board.show(name, seed))
                if outcome.asked is not None:
                    raise Stopped(name, 128 + int(outcome.asked))
                found[name].add(outcome)
                board.done(name, seed, found[name].held_out[-1])
    return list(found.values())


def _beside(
    out: Path,
    contenders: Sequence[Contender],
    configs: dict[str, RunConfig],
    peer: Contender,
    own: RunConfig,
    equal: Equal,
    by: By | None,
) -> list[Contender]:
    """The peer sized for each contender but itself. Sizes found once are kept: times, measured again, would differ."""
    path = out / "sized.json"
    known: dict[str, dict[str, Any]] = read_json(path) if path.exists() else {}
    found = []
    for each in contenders:
        if each.name == peer.name:
            continue
        key = f"{peer.name} {equal} {by} {each.name}"
        if key not in known:
            model = configs[each.name].model
            made = sized(peer, own.model, each, model, own.training, equal=equal, by=by)
            known[key] = {"name": made.name, "changes": list(made.changes), "matched": made.matched}
            write_json(path, known)
        told = known[key]
        found.append(Contender(told["name"], tuple(told["changes"]), each.name, told["matched"]))
    return found


def _claim(out: Path, config: RunConfig, corpus: Corpus) -> None:
    """Claims OUT for the settings that all contenders share; ValueError where it belongs to others."""
    shared = config.identity(corpus.identity)
    del shared["model"]["mixer"], shared["training"]["seed"]
    with lock(out):
        open_run(out, {"compare": 1, **shared})
