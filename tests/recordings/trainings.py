"""What each recipe and each arrangement of layers is: identity, parameters, losses of a training, tokens one by one.

    python -m tests.recordings.trainings        writes trainings.json: cases that it lacks; what it has stays as it is

All in float64, at tiny sizes, on texts that are generated. `test_trainings.py` holds the package to these numbers.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import seqloom
from seqloom.core.progress import show_nothing
from seqloom.core.state import flat
from seqloom.retrieval.building import build
from seqloom.runs.layout import identity
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig
from seqloom.training.preparation import prepare_run
from seqloom.training.recipes import RECIPES
from seqloom.training.settings import resolve
from seqloom.training.train import train
from tests.recordings.equations import part

PATH = Path(__file__).with_name("trainings.json")
TOKENS = 9
EVERY = (
    *("training.device=cpu", "training.precision=float64", "training.batches=3"),
    *("training.batch=4", "training.evaluate_every=0", "data.source=stories:30:0"),
)
TEXT = ("data.vocab=280",)
SIZES = ("model.dim=16", "model.depth=2", "model.context=12", "model.ffn=20", "model.dropout=0.1", *TEXT)
PAIRS = (
    "model.dim=16",
    "model.context=80",
    "model.ffn=20",
    "model.dropout=0.1",
    "data.source=pairs:dates",
    "data.held_out=0.002",
)
LABELS = ("data.labels=book", "data.passage=20", "data.source=stories:30:0", *TEXT)
EPISODES = ("data.source=episodes:TMaze-10:scripted:20", "model.dim=16", "model.ffn=20", "model.context=12")
FROZEN = ("model.mixer.kind=gru", "model.position.kind=none", "model.dim=16", "model.context=12")
OWN = {
    "board/small": (*SIZES, "data.division=documents"),
    "classifier/small": ("model.dim=16", "model.context=99", "model.ffn=20", "model.dropout=0.1", *LABELS),
    "classifier/textcnn": ("model.dim=16", "model.maps=4", "model.context=40", "data.labels=book", "data.passage=20"),
    "compressive/small": (*SIZES, "model.mixer.memory=4", "model.mixer.compressed=3", "model.mixer.rate=2"),
    "decision/cartpole": EPISODES,
    "classifier/listops": ("data.source=listops:60:0:2", "model.dim=16", "model.ffn=20"),
    "pictures/classifier": ("data.source=images:shapes:8:60", "model.dim=16", "model.context=80", "model.ffn=20"),
    "pictures/digits": ("data.source=images:shapes:8:60", "model.dim=16", "model.context=80", "model.ffn=20"),
    "pictures/doubling": ("data.source=pairs:pictures-doubling:30", "model.dim=16", "model.ffn=20"),
    "pictures/patches": ("data.source=images:shapes:8:60", "model.dim=16", "model.ffn=20"),
    "pictures/pathfinder": ("data.source=images:shapes:8:60", "model.dim=16", "model.context=80", "model.ffn=20"),
    "pictures/small": ("data.source=images:shapes:8:60", "model.dim=16", "model.context=65", "model.ffn=20"),
    "regressor/small": ("data.source=numbers:linear:2", "model.dim=16", "model.ffn=20"),
    "decision/maze": ("data.source=TMaze-10", "model.dim=16", "model.ffn=20"),
    "gated_delta/125m": (*SIZES, "model.mixer.heads=2", "training.accumulate=2"),
    "gated_delta/small": (*SIZES, "model.dim=32", "model.depth=4"),
    "griffin/small": (*SIZES, "model.depth=3"),
    "hybrid/350m": (*SIZES, "model.dim=128", "model.depth=4", "training.accumulate=2"),
    "kimi/small": (*SIZES, "model.dim=32", "model.depth=4"),
    "llama/125m": (*SIZES, "model.mixer.heads=2", "model.mixer.kv_heads=1", "training.accumulate=2"),
    "ngram/context_tree": TEXT,
    "ngram/fixed_order": TEXT,
    "ngram/hmm": (*TEXT, "model.states=3"),
    "ngram/kneser_ney": TEXT,
    "demo": (*SIZES, "model.mixer.heads=2"),
    "paper/reformer_performer": (*SIZES, "model.depth=4"),
    "paper/small": (*SIZES, "model.mixer.heads=2"),
    "paper/table1": (*SIZES, "model.mixer.heads=2"),
    "paper/spade": ("model.dim=16", *TEXT),
    "seq2seq/bahdanau": PAIRS,
    "seq2seq/dates": PAIRS,
    "seq2seq/vaswani": (*PAIRS, "model.depth=2", "model.encoder.depth=2", "data.tokenizer=bytes"),
    "spalm/small": (*SIZES, "model.mixer.memory=5"),
    "transformer_xl/small": (*SIZES, "model.mixer.memory=9"),
    "universal/dates": PAIRS,
    "xlstm/small": (*SIZES, "model.depth=8"),
}
TINY = ("model.dim=16", "model.depth=3", "model.context=12", "model.ffn=20", "model.mixer={kind: attention, heads: 2}")
HANDING = "model.mixer={kind: rwkv7, heads: 2}"
EXITS = "training.objective.kind=exits"
ACTS = ("data.source=episodes:TMaze-10:scripted:20", "training.objective.kind=actions")
UNIVERSAL = "model.kind=universal"
ARRANGEMENTS = {
    "parallel": ("model.sublayers=parallel",),
    "reversible": ("model.sublayers=reversible",),
    "reversible without dropout": ("model.sublayers=reversible", "model.dropout=0.0"),
    "after": ("model.norm_place=after",),
    "alone": ("model.channel=none",),
    "alone after": ("model.channel=none", "model.norm_place=after"),
    "alone with gates": ("model.channel=none", "model.residual=highway"),
    **{
        f"residual {kind}": (f"model.residual={kind}",)
        for kind in ("gru", "input", "output", "highway", "sigmoid_tanh")
    },
    "positions of layers": ("model.position=learned_each_layer",),
    "handing": (HANDING, "model.position=none"),
    "handing with gates": (HANDING, "model.position=none", "model.residual=gru", "model.channel=channel_mix7"),
    "handing in parallel": (HANDING, "model.position=none", "model.sublayers=parallel"),
    "channel_mix": ("model.mixer={kind: rwkv}", "model.channel=channel_mix", "model.embed_norm=true"),
    "chunks": ("model.ffn_chunk=5", "model.glu=true", "model.activation=silu", "model.ffn_bias=false"),
    "exits": (EXITS,),
    "exits by layer": (EXITS, "model.exit_heads=own"),
    "exits mixed": (EXITS, "training.objective.training=mixed"),
    "exits mixed with gates": (EXITS, "training.objective.training=mixed", "model.residual=gru"),
    "exits mixed after": (EXITS, "training.objective.training=mixed", "model.norm_place=after"),
    "exits mixed handing": (EXITS, "training.objective.training=mixed", HANDING, "model.position=none"),
    "universal": (UNIVERSAL,),
    "universal sinusoidal after": (UNIVERSAL, "model.position=sinusoidal", "model.norm_place=after"),
    "universal halting": (UNIVERSAL, "model.halt=true", "model.ponder=0.1"),
    "universal in parallel": (UNIVERSAL, "model.sublayers=parallel", "model.halt=true"),
    "universal exits": (UNIVERSAL, EXITS),
    "universal separable": (UNIVERSAL, "model.channel=separable"),
    "universal handing": (UNIVERSAL, HANDING, "model.position=none"),
    "universal encoder": ("model.kind=universal_encoder", "model.halt=true", "training.objective.kind=masked_token"),
    "encoder reversible": ("model.kind=encoder", "model.sublayers=reversible", "training.objective.kind=masked_token"),
    "actions reversible": ("model.kind=decision", "model.sublayers=reversible", "model.position=none", *ACTS),
    "actions handing": ("model.kind=decision", HANDING, "model.position=none", *ACTS),
    "packed": ("data.packed=true",),
    "carried": ("training.memory=carry", "training.through=2", "model.position=none", "data.within_documents=true"),
    "probe": ("training.objective={kind: probe, probe: compression, difficulty: 3}",),
    "masked spans": ("model.kind=encoder", "training.objective={kind: masked_token, span: 3}"),
}
TRANSLATORS = {
    "seq2seq after": ("model.norm_place=after", "model.encoder.repeat=true", "model.encoder.halt=true"),
    "seq2seq handing": ("model.mixer={kind: rwkv7, heads: 2}", "model.position=none", "model.encoder.mixer={kind: he}"),
    "universal_seq2seq": ("model.kind=universal_seq2seq", "model.halt=true"),
    "universal_seq2seq separable": (
        "model.kind=universal_seq2seq",
        "model.channel=separable",
        "model.encoder.channel=separable",
    ),
}
"""changes of seq2seq/dates"""
CASES = (*RECIPES, *ARRANGEMENTS, *TRANSLATORS)


def settings(case: str, home: Path) -> RunConfig:
    """The tiny run of a case; `home` gets what it looks up in."""
    preset, changes = _changes(case)
    if case.startswith("spalm/"):
        changes.append(f"model.store={_store(home)}")
    return resolve(preset, changes)


def identity_of(case: str) -> str:
    """The hash of the identity of the tiny run over a text, or over episodes, called "data"."""
    preset, changes = _changes(case)
    return identity(resolve(preset, changes).identity("data"))


def _changes(case: str) -> tuple[str, list[str]]:
    """The preset of a case, and what is changed of it."""
    if case in ARRANGEMENTS:
        return "tiny", [*EVERY, *TEXT, *TINY, *ARRANGEMENTS[case]]
    if case in TRANSLATORS:
        return "seq2seq/dates", [*EVERY, *PAIRS, *TRANSLATORS[case]]
    every = [change for change in EVERY if "precision" not in change or not case.startswith("ngram/")]
    return case, [*every, *OWN.get(case, SIZES)]


def _store(home: Path) -> Path:
    """The store of a model that was trained a little."""
    config = resolve("tiny", [*EVERY, *TEXT, *FROZEN])
    corpus = prepare_run(config)[1]
    assert corpus is not None
    train(config, home / "run", say=lambda line: None)
    model = seqloom.load(home / "run")
    return build(model, corpus.train, home / "store", source="stories", run=str(home / "run"), show=show_nothing).folder


def training(case: str, home: Path) -> dict[str, Any]:
    """`identity`, `parameters` by name, `losses` of the steps, `score`, and `tokens`: numbers of what it streams."""
    torch.set_default_dtype(torch.float64)  # the first weights too, whose last bits depend on the processor in float32
    try:
        outcome = train(settings(case, home), home / "trained", say=lambda line: None)
    finally:
        torch.set_default_dtype(torch.float32)
    rows = read(outcome.run.folder / "metrics.jsonl")
    model = seqloom.load(outcome.run.folder)
    return {
        "identity": identity_of(case),
        "parameters": {name: list(tensor.shape) for name, tensor in model.state_dict().items()},
        "losses": [_rounded(row["loss"]) for row in rows if row.get("loss") is not None],
        "score": [_rounded(row["held_out"]) for row in rows if "held_out" in row],
        "tokens": [_rounded(number) for number in _streamed(model.double().eval())],
    }


@torch.no_grad()
def _streamed(model: Any) -> Sequence[float | Tensor]:
    """Of the logits and the state after a piece, after single tokens, and after tokens that leave early."""
    if model.config.fits or not (model.traits.streams or model.traits.translates):
        return []
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.vocab, (2, TOKENS), generator=generator)
    keep = torch.rand((2, 5), generator=generator) > 0.3
    state = model.begin(ids) if model.traits.translates else model.start(2)
    logits, state = model.extend(ids[:, :5], state, keep)
    numbers: list[float | Tensor] = [part([logits])]
    for token in ids[:, 5:].unbind(1):
        logits, state = model.step(token, state)
        numbers.append(part([logits]))
    numbers.append(part(_tensors(model, state)))
    if _has_exits(model):
        logits, state, depth = model.step_until(ids[:, 0], state, lambda before, after: True)
        x, _ = model.exits_at(ids, 1 + ids % model.config.depth, None)
        numbers += [part([logits]), part(_tensors(model, state)), depth, part([x])]
    return numbers


def _tensors(model: Any, state: Any) -> list[Tensor]:
    """The tensors of a state, in the order of their names."""
    return [tensor for _, tensor in sorted(flat(model.trim(state)).items())]


def _has_exits(model: Any) -> bool:
    """Whether a layer's stream is what the output layer reads."""
    try:
        model.check_exits()
    except (AttributeError, ValueError):
        return False
    return True


def _rounded(number: float | Tensor) -> float:
    """To 13 digits: the last ones depend on the processor."""
    return float(f"{float(number):.13g}")


def recorded() -> dict[str, dict[str, Any]]:
    """What trainings.json has, by case."""
    contents: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    return contents


def main() -> None:
    """Writes the cases that are not there."""
    before = recorded()
    found = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as home:
            found[case] = before[case] if case in before else training(case, Path(home))
    lines = (f"{json.dumps(case)}: {json.dumps(entry)}" for case, entry in found.items())
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
