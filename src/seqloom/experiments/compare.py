"""Models compared fairly: one preset, one text, one order of batches; what differs is the mixer alone.

    compare([contender("attention:heads=32"), contender("she")], "paper/small", ..., out=Path("runs/compare"))

Each contender is a run of its own per seed, in OUT/NAME/seed-N, and goes on where it stopped. The seed draws the
initial weights and the dropout; the text, its held-out part and the order of the batches stay what they are. OUT itself
belongs to the settings that all share, and refuses others. What is found is kept in OUT/comparison.json, for `report`.
Where every mixer is compared, one whose cost is no number stops nobody: the reason is kept in OUT/failed.json.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.analysis.match import By, Equal
from seqloom.analysis.origin import origin
from seqloom.core.seeds import require_count
from seqloom.data.prepare import Corpus
from seqloom.experiments.board import Board
from seqloom.experiments.contenders import Contender, beside
from seqloom.experiments.decoding import decoding, require_lengths
from seqloom.experiments.kept import Trained, kept
from seqloom.experiments.probing import BATCHES, probing, require_probes
from seqloom.experiments.stopped import Stopped
from seqloom.experiments.supplement import supplement
from seqloom.runs.layout import open_run, read_json, write_json
from seqloom.runs.lock import lock
from seqloom.training.config import RunConfig
from seqloom.training.loop import NotFinite
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve
from seqloom.training.train import train

__all__ = ["Stopped", "compare"]

KEPT = "comparison.json"
PROMPT = "Once upon a time"


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
    lengths: Sequence[int] = (),
    probes: Sequence[str] = (),
    probe_batches: int = BATCHES,
    left_out: Mapping[str, str] | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Trains every contender once a seed, weighs all, and returns what it keeps in OUT/comparison.json.

    With `equal`, the `peer` resized to equal each other contender in that quantity stands beside it. At `lengths` a
    token is timed (`decoding`), on `probes` small models are trained (`probing`). `left_out` is given where every mixer
    is compared: those without room here, by name with the reason; then one that cannot be trained is kept as a row.
    ValueError where names repeat, settings do not fit, or OUT holds a comparison of other settings; `Stopped` when a
    signal ends it.
    """
    names = [each.name for each in contenders]
    if not contenders or len(set(names)) < len(names):
        raise ValueError(f"a comparison needs contenders of different names, not {', '.join(names) or 'none'}")
    require_count(seeds)
    if (equal is None) != (peer is None):
        raise ValueError("a model to be sized needs both: what it is, and the quantity to be equal in")
    require_lengths(lengths)
    require_probes(probes, probe_batches)

    def settings(contender: Contender) -> RunConfig:
        def log(line: str) -> None:
            print(f"{contender.name}: {line}", file=sys.stderr)

        config = resolve(preset, [*changes, *contender.changes], source, log=log)
        return config.model_copy(update={"model": config.model.model_copy(update={"vocab": vocab})})

    first, corpus = with_text(resolve(preset, [*changes, *contenders[0].changes], source))
    vocab = first.model.vocab
    configs = {each.name: settings(each) for each in contenders}
    _claim(out, first, corpus)
    every = list(contenders)
    if equal is not None and peer is not None:
        every += beside(out, contenders, configs, peer, settings(peer), equal, by)
        configs |= {each.name: settings(each) for each in every if each.name not in configs}
    trained, failed = _trained(every, configs, out, seeds, left_out is not None)
    probed = probing(contenders, probes, probe_batches, out, changes, command)
    decoded = decoding(configs, lengths, out, command) if lengths else []
    done = [each for each in trained if each.contender.name not in failed]
    said = kept(done, corpus, preset, changes, equal, prompts)
    supplement(said, trained, failed, decoded, probed, probe_batches, left_out)
    said["origin"] = origin(command)
    write_json(out / KEPT, said)
    return said


def _trained(
    contenders: Sequence[Contender], configs: dict[str, RunConfig], out: Path, seeds: int, forgiving: bool
) -> tuple[list[Trained], dict[str, str]]:
    """Trains all; seed by seed, so that every contender has one run before any has two.

    Whose cost is no number raises NotFinite, or if `forgiving` stands among the second, with the reason.
    """
    found = {each.name: Trained(each, configs[each.name], out) for each in contenders}
    path = out / "failed.json"
    failed: dict[str, str] = read_json(path) if forgiving and path.exists() else {}
    with Board([(name, seed) for seed in range(seeds) for name in found]) as board:
        for seed in range(seeds):
            for name, config in configs.items():
                if name in failed:
                    continue
                seeded = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
                try:
                    outcome = train(seeded, out / name / f"seed-{seed}", say=board.say, show=board.show(name, seed))
                except NotFinite as error:
                    if not forgiving:
                        raise
                    failed[name] = str(error)
                    write_json(path, failed)
                    board.say(f"{name}: {error}")
                    continue
                if outcome.asked is not None:
                    raise Stopped(name, 128 + int(outcome.asked))
                found[name].add(outcome, seeded)
                board.done(name, seed, found[name].held_out[-1])
    if len(failed) == len(found):
        raise NotFinite(f"no contender can be trained so; {next(iter(failed))}: {next(iter(failed.values()))}")
    return list(found.values()), failed


def _claim(out: Path, config: RunConfig, corpus: Corpus) -> None:
    """Claims OUT for the settings that all contenders share; ValueError where it belongs to others."""
    shared = config.identity(corpus.identity)
    del shared["model"]["mixer"], shared["training"]["seed"]
    with lock(out):
        open_run(out, {"compare": 1, **shared})
