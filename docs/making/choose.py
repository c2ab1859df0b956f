"""docs/choose.md: which mixer for which need, from the rows of the comparison, its races and the trained probes.

make pages         writes it
"""

from pathlib import Path

from docs.making.by_decisions import best_supported, long_texts, memory, quality
from docs.making.by_probes import SOLVED, recall, tracking
from docs.making.by_races import STEPS, gpu_steps, step_on_cpu, step_on_gpu
from docs.making.results import RESULTS
from docs.making.template import render
from seqloom.core.statistics import LEVEL
from seqloom.training.settings import resolve
from seqloom_studies.board import lineup, short
from seqloom_studies.recall.tracked import FILE

PAGE = Path(__file__).parents[1] / "choose.md"
HEAD = ("you need", "take", "because", "where it loses")


def page(results: Path = RESULTS) -> str | None:
    """The text of the page; None where there are no rows of the comparison."""
    six = short.newest(results)
    if six is None:
        return None
    recipe = resolve(lineup.RECIPE, []).layered_model
    advice = [
        quality(six),
        memory(six),
        long_texts(six),
        recall(results),
        tracking(results),
        step_on_cpu(six),
        step_on_gpu(results),
        best_supported(six),
    ]
    return render(
        "choose",
        first_choice=six.first_choice or "No mixer is a good first choice by a significant difference.",
        gpu=gpu_steps(results),
        head=HEAD,
        lines=[line.cells for line in advice if line is not None],
        level=f"{LEVEL:g}",
        solved=f"{SOLVED:.0%}",
        files=[
            ("the comparison", six.protocol.rows),
            ("steps on a CPU", six.protocol.times),
            ("steps on a GPU", STEPS),
            ("probes", FILE),
        ],
        dim=recipe.dim,
        depth=recipe.depth,
        parameters=f"{six.standing(six.protocol.models[0]).first.parameters / 1e6:.2f}",
    )
