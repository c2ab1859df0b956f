"""Small models that look up one key in a list of pairs, with the question before the list or after it.

    study = question([parse_candidate("rwkv"), parse_candidate("attention")], pairs=16, seeds=3)
    rows = run(study, Path("runs/question")).of(Answers)

Each model is trained on one order alone; a row of the probe is as long in both, and has the same pairs.
"""

from collections.abc import Iterator, Sequence

from seqloom.studies.candidate import Candidate
from seqloom.studies.recall import Recall
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Study

STUDY = "question"


def question(
    mixers: Sequence[Candidate],
    *,
    pairs: int = 16,
    batches: int = 3000,
    lrs: Sequence[float] = (1e-3, 3e-3),
    seeds: int = 1,
    changes: Sequence[str] = (),
) -> Study:
    """The study. ValueError for repeated values and for settings that do not fit."""
    probes = [f"lookup:pairs={pairs},keys={4 * pairs},values={4 * pairs},before={before}" for before in (0, 1)]
    grid = Recall(mixers, probes, (1,), batches=batches, lrs=lrs, seeds=seeds, changes=changes)

    def stages(results: Results) -> Iterator[list[Cell]]:
        return grid.stages(results)

    return Study(STUDY, {}, stages)
