"""`seqloom study recall`: the options."""

from itertools import groupby
from typing import Annotated

import typer

from seqloom.cli.options import (
    Again,
    Cluster,
    ClusterSet,
    Jobs,
    ModelChanges,
    ModelsOut,
    Planned,
    Seeds,
    Share,
    out_folder,
)
from seqloom.cli.time_limit import time_limited

Numbers = Annotated[list[int] | None, typer.Option("--dim", help="channels of the models; may be repeated (64)", min=1)]
Rates = Annotated[
    list[float] | None,
    typer.Option("--lr", help="learning rate; may be repeated: the best of each mixer counts (0.001)"),
]


@time_limited
def command(
    mixers: Annotated[list[str], typer.Argument(help="KIND or KIND:NAME=VALUE,…, e.g. mamba:state_dim=4")],
    out: ModelsOut = None,
    probe: Annotated[
        list[str] | None,
        typer.Option(
            help="mqar, induction, copying, selective-copying, parity, permutations, swaps, compression, needle, lookup"
        ),
    ] = None,
    difficulty: Annotated[
        str, typer.Option(help="levels: 3, 1..4 or 1,3,5; each doubles what must be remembered")
    ] = "1",
    dim: Numbers = None,
    depth: Annotated[int, typer.Option(help="layers", min=1)] = 2,
    batches: Annotated[
        int, typer.Option(help="largest number of training batches; a solved probe ends earlier")
    ] = 3000,
    batch: Annotated[int, typer.Option(help="rows of a batch")] = 64,
    lr: Rates = None,
    test: Annotated[
        str | None, typer.Option(help="settings of the test rows, e.g. length=160; default: as in training")
    ] = None,
    solved: Annotated[float, typer.Option(help="accuracy at which training ends")] = 0.999,
    climb: Annotated[
        bool, typer.Option("--climb", help="train at the next difficulty only mixers that solved the one before")
    ] = False,
    seeds: Seeds = 1,
    change: ModelChanges = None,
    again: Again = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
    cluster: Cluster = None,
    cluster_set: ClusterSet = None,
) -> int:
    """Trains small models on synthetic probes and prints their accuracy by distance; Ctrl-C saves."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    require_contenders(mixers, "demo", ["data.source=stories", *(change or [])])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_or_plan
    from seqloom.studies.probe_cell import Answers
    from seqloom.studies.recall import Recall
    from seqloom.studies.results import RESULTS
    from seqloom.studies.runner import Workers
    from seqloom_studies.recall.table import text

    grid = Recall(
        [parse_candidate(text) for text in mixers],
        probe or ["mqar"],
        levels(difficulty),
        dims=dim or [64],
        depth=depth,
        batches=batches,
        batch=batch,
        lrs=lr or [1e-3],
        seeds=seeds,
        changes=change or [],
        test=test,
        solved=solved,
        climb=climb,
    )
    workers = Workers(jobs, cluster, tuple(cluster_set or ()), share)
    results = run_or_plan(grid.study, models_folder, workers, planned=plan, again=again or [])
    if isinstance(results, int):
        return results
    for _, answers in groupby(results.of(Answers), key=lambda row: (row.probe, row.difficulty)):
        print("\n" + text(list(answers)))
    print(f"\nthe rows are in {models_folder / RESULTS}")
    return 2 if results.failed else 0


def levels(text: str) -> list[int]:
    """The difficulties in a text such as `3`, `1..4` or `1,3,5`."""
    from seqloom.data.probes import HARDEST

    first, dots, last = text.partition("..")
    words = [first, last] if dots else text.split(",")
    if not all(word.isdecimal() and len(word) < 100 for word in words) or (dots and int(last) < int(first)):
        raise ValueError(f"--difficulty must be one or more numbers, e.g. 3, 1..4 or 1,3,5, not {text[:100]!r}")
    numbers = [int(word) for word in words]
    if max(numbers) > HARDEST:
        raise ValueError(f"--difficulty must be at most {HARDEST}, not {max(numbers)}")
    return list(range(numbers[0], numbers[1] + 1)) if dots else numbers
