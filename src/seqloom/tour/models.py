"""The three models of the tour: found in folders of runs, or trained here on generated stories in half a minute.

attention, the HE Extractor, gated_delta      one run of each, by the mixer of its first layer
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, final

from seqloom.core.model import Model
from seqloom.data.tokenizer import Tokenizer
from seqloom.face import load
from seqloom.mixers.attention.attention import Attention
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.linear.gated_delta import GatedDelta
from seqloom.runs.layout import Run
from seqloom.training.settings import resolve
from seqloom.training.train import train

Kind: TypeAlias = Literal["attention", "he", "gated_delta"]
KINDS: tuple[Kind, ...] = ("attention", "he", "gated_delta")
MIXERS = {"attention": Attention, "he": Extractor, "gated_delta": GatedDelta}
COMMAND = "seqloom compare attention he gated_delta --data books/ --out runs/compare"
PACKED = Path(__file__).parents[1] / "play/models"
"""models that are installed with seqloom, for `seqloom play`"""
DEMO = Path("runs/demo/full")
"""the runs of `make demo`"""
OUT = Path("runs/tour")
CHANGES = ("data.source=stories:3000:0", "training.batches=120", "training.save_every=120")
"""what makes the recipe of the demo short enough for three trainings in half a minute"""


@final
@dataclass(frozen=True)
class Three:
    """The models by kind; they have one tokenizer."""

    models: dict[Kind, Model]
    tokenizer: Tokenizer
    described: str
    """where they are from"""


def find_models(folders: Sequence[Path]) -> Three:
    """One model of each kind from folders of runs, or those beneath them; the first of each kind counts.

    FileNotFoundError where a folder does not exist; ValueError where a kind is missing, or tokenizers differ.
    """
    absent = next((folder for folder in folders if not folder.is_dir()), None)
    if absent is not None:
        raise FileNotFoundError(f"{absent} does not exist: give folders of runs, or one with runs in it")
    runs = _find_runs(folders)
    missing = [kind for kind in KINDS if kind not in runs]
    if missing:
        names = ", ".join(map(str, folders))
        raise ValueError(f"{names}: no run of {' or '.join(missing)} there; this trains all three: {COMMAND}")
    return _load(runs, ", ".join(map(str, folders)))


def train_models(out: Path = OUT, changes: Sequence[str] = ()) -> Three:
    """Three small models of generated stories, trained in `out`, or continued there. Raises as `train` does."""
    runs: dict[Kind, Path] = {kind: out / kind for kind in KINDS}
    for kind, folder in runs.items():
        print(f"{kind}: training on stories, for about ten seconds", file=sys.stderr)
        heads = ["model.mixer.heads=4"] if kind != "he" else []
        train(resolve("demo", [*CHANGES, f"model.mixer.kind={kind}", *heads, *changes]), folder)
    return _load(runs, f"{out}, trained here on generated stories")


def default_models() -> Three:
    """Those that come with seqloom, or else those of the demo where it has run, or else trained here."""
    for folder, described in ((PACKED, "the models that come with seqloom"), (DEMO, str(DEMO))):
        runs = _find_runs([folder])
        if len(runs) == len(KINDS):
            return _load(runs, described)
    return train_models()


def _find_runs(folders: Sequence[Path]) -> dict[Kind, Path]:
    """The first run of each kind in folders that are runs or have runs beneath them."""
    runs: dict[Kind, Path] = {}
    for folder in folders:
        beneath = [folder] if Run(folder).config.is_file() else [path.parent for path in folder.rglob("config.json")]
        for path in sorted(beneath):
            kind = _kind_of(path)
            if kind is not None:
                runs.setdefault(kind, path)
    return runs


def _kind_of(folder: Path) -> Kind | None:
    """The kind of the first layer's mixer, by the settings of the run; None for another, and for no run."""
    try:
        mixer = Run(folder).settings["model"]["mixer"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    first = mixer[0] if isinstance(mixer, list) and mixer else mixer
    kind = first.get("kind") if isinstance(first, dict) else None
    return cast("Kind", kind) if kind in KINDS else None


def _load(runs: dict[Kind, Path], described: str) -> Three:
    """The models; ValueError where the first layer is another form of its mixer, or tokenizers differ."""
    models: dict[Kind, Model] = {}
    tokenizers: list[Tokenizer] = []
    for kind, folder in runs.items():
        model = load(folder)
        mixer = model.mixers[0] if model.mixers else None
        if not isinstance(mixer, MIXERS[kind]) or not isinstance(model.tokenizer, Tokenizer):
            raise ValueError(f"{folder}: the tour shows a causal text model with plain {kind} in its first layer")
        models[kind] = model.eval()
        tokenizers.append(model.tokenizer)
    first = tokenizers[0]
    if any(other.json != first.json for other in tokenizers[1:]):
        raise ValueError(f"{described}: the tokenizers differ; this trains three models with one: {COMMAND}")
    return Three({kind: models[kind] for kind in KINDS}, first, described)
