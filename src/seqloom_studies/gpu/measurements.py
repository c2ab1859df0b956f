"""A2 and A3: races of training steps, and the kernels of one step of each model.

A2   the paper's Table 1: 32 heads, HE, SHE         eager · captured · captured, TF32 · captured, bfloat16
A3   dim 512, depth 12, bfloat16: attention, HE, gated_delta         eager · captured · as others write them
"""

from collections.abc import Mapping, Sequence

from seqloom.studies.study import Cell, Study
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom_studies.gpu.kernels import KernelTable, Tuning
from seqloom_studies.gpu.on_card import CAPTURED, EAGER
from seqloom_studies.gpu.queue import Place
from seqloom_studies.gpu.steps import StepRace


def table1_study(place: Place, code: str) -> Study:
    """A2: the paper's Table 1 with 32 heads, HE and SHE, in one race."""
    ways = {
        "eager": EAGER,
        "captured": CAPTURED,
        "captured, TF32": (*CAPTURED, "training.precision=tf32"),
        "captured, bfloat16": (*CAPTURED, "training.precision=bf16"),
    }
    mixers = {"attention:heads=32": "{kind: attention, heads: 32}", "he": "{kind: he}", "she": "{kind: she}"}
    resolved = _resolved("paper/table1", [*place.sizes.table1, *_device(place)], mixers, ways)
    cells = [_race("steps", place, code, resolved, ("attention:heads=32", "eager")), _table(place, code, resolved)]
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
    bf16 = "training.precision=bf16"
    ways = {"eager": (*EAGER, bf16), "captured": (*CAPTURED, bf16)}
    mixers = {"attention": None, "he": "{kind: he}", "gated_delta": "{kind: gated_delta}"}
    return _resolved("board/small", [*place.sizes.wide, *_device(place)], mixers, ways)


def wide_study(place: Place, code: str) -> Study:
    """A3: dim 512, depth 12, in bfloat16, a race for each model, next to the same of others."""
    resolved = _wide(place)
    cells: list[Cell] = []
    for mixer in dict.fromkeys(
        mixer for mixer, _ in resolved
    ):  # one at a time: the graphs of all would not fit into the card together
        own = {key: config for key, config in resolved.items() if key[0] == mixer}
        cells.append(_race(mixer, place, code, own, (mixer, "captured"), with_peers=True))
    cells.append(_table(place, code, resolved))
    return Study("A3", {}, lambda results: iter([cells]))


def _device(place: Place) -> list[str]:
    return [f"training.device={place.card.device}"]


def _resolved(
    recipe: str, changes: Sequence[str], mixers: Mapping[str, str | None], ways: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], RunConfig]:
    """The settings by mixer and way; None is the recipe's mixer."""
    made = {}
    for mixer, settings in mixers.items():
        of_mixer = [] if settings is None else [f"model.mixer={settings}"]
        for way, of_way in ways.items():
            made[mixer, way] = resolve(recipe, [*changes, *of_mixer, *of_way])
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


def _table(place: Place, code: str, resolved: dict[tuple[str, str], RunConfig]) -> KernelTable:
    """The kernels of each model in the last way."""
    way = list(resolved)[-1][1]
    models = {mixer: config for (mixer, its_way), config in resolved.items() if its_way == way}
    return KernelTable(name="kernels", card=place.card, code_digest=code, models=models, way=way)
