"""A2 and A3: races of training steps, and the kernels of one step of each model.

A2   the paper's Table 1: 32 heads, HE, SHE         eager · captured · TF32 · bfloat16; these two compiled inside too
A3   dim 512, depth 12, bfloat16: attention, HE, gated_delta         eager · captured · compiled · as others write them
"""

from collections.abc import Mapping, Sequence

from seqloom.studies.study import Cell, Study
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom_studies.gpu.kernels import KernelTable, Tuning
from seqloom_studies.gpu.on_card import CAPTURED, EAGER
from seqloom_studies.gpu.queue import Place
from seqloom_studies.gpu.steps import StepRace

TF32, BF16 = "training.precision=tf32", "training.precision=bf16"
COMPILED = "training.compile=true"


def table1_study(place: Place, code: str) -> Study:
    """A2: the paper's Table 1 with 32 heads, HE and SHE, in one race; then compiled ones, next to one that is not."""
    ways = {
        "eager": EAGER,
        "captured": CAPTURED,
        "captured, TF32": (*CAPTURED, TF32),
        "captured, bfloat16": (*CAPTURED, BF16),
        "captured, compiled, TF32": (*CAPTURED, COMPILED, TF32),
        "captured, compiled, bfloat16": (*CAPTURED, COMPILED, BF16),
    }
    mixers = {"attention:heads=32": "{kind: attention, heads: 32}", "he": "{kind: he}", "she": "{kind: she}"}
    resolved = _resolve_settings("paper/table1", place.sizes.table1, place, mixers, ways)
    plain = {key: config for key, config in resolved.items() if not config.training.compile}
    baseline = ("he", "captured, TF32")
    compiled = {key: config for key, config in resolved.items() if config.training.compile or key == baseline}
    cells: list[Cell] = [
        _race("steps", place, code, plain, ("attention:heads=32", "eager")),
        _race("compiled", place, code, compiled, baseline),
        _table(place, code, resolved, "captured, TF32"),
    ]
    return Study("A2", {}, lambda results: iter([cells]))


def tuning_study(place: Place, code: str) -> Study:
    """A3-tune: the one item that tunes: fla's kernels in the sizes of A3."""
    models = {
        mixer: config for (mixer, way), config in _wide(place).items() if (mixer, way) == ("gated_delta", "eager")
    }
    cell = Tuning(name="tuning", card=place.card, code_digest=code, models=models, with_peers=True)
    return Study("A3-tune", {}, lambda results: iter([[cell]]))


def _wide(place: Place) -> dict[tuple[str, str], RunConfig]:
    """The settings of A3 by mixer and way."""
    ways = {
        "eager": (*EAGER, BF16),
        "captured": (*CAPTURED, BF16),
        "captured, compiled": (*CAPTURED, COMPILED, BF16),
    }
    mixers = {"attention": None, "he": "{kind: he}", "gated_delta": "{kind: gated_delta}"}
    return _resolve_settings("board/small", place.sizes.wide, place, mixers, ways)


def wide_study(place: Place, code: str) -> Study:
    """A3: dim 512, depth 12, in bfloat16, a race for each model, next to the same of others."""
    resolved = _wide(place)
    cells: list[Cell] = []
    for mixer in dict.fromkeys(name for name, _ in resolved):  # the graphs of all at once would not fit into a card
        own = {key: config for key, config in resolved.items() if key[0] == mixer}
        cells.append(_race(mixer, place, code, own, (mixer, "captured"), with_peers=True))
    cells.append(_table(place, code, resolved, "captured"))
    return Study("A3", {}, lambda results: iter([cells]))


def _resolve_settings(
    recipe: str,
    changes: Sequence[str],
    place: Place,
    mixers: Mapping[str, str | None],
    ways: Mapping[str, Sequence[str]],
) -> dict[tuple[str, str], RunConfig]:
    """The settings by mixer and way; None is the recipe's mixer."""
    made = {}
    for mixer, settings in mixers.items():
        of_mixer = [] if settings is None else [f"model.mixer={settings}"]
        for way, of_way in ways.items():
            if COMPILED not in of_way or mixer in place.sizes.compiled:
                device = f"training.device={place.card.device}"
                made[mixer, way] = resolve(recipe, [*changes, device, *of_mixer, *of_way])
    return made


def _race(
    name: str,
    place: Place,
    code: str,
    resolved: dict[tuple[str, str], RunConfig],
    baseline: tuple[str, str],
    with_peers: bool = False,
) -> StepRace:
    return StepRace(
        name=name,
        card=place.card,
        code_digest=code,
        models={mixer: config for (mixer, _), config in resolved.items()},
        resolved=resolved,
        baseline=baseline,
        rounds=place.sizes.rounds,
        peers=with_peers,
    )


def _table(place: Place, code: str, resolved: dict[tuple[str, str], RunConfig], way: str) -> KernelTable:
    """The kernels of each model in this way."""
    models = {mixer: config for (mixer, its_way), config in resolved.items() if its_way == way}
    return KernelTable(name="kernels", card=place.card, code_digest=code, models=models, way=way)
