"""`seqloom study markov-gap`: models next to the true chain, as its order grows past their context."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import folder, out_folder, sizes

if TYPE_CHECKING:
    from seqloom.experiments.markov_gap import Gap

MODELS = ("attention:heads=4", "she", "he", "we", "me", "gru", "mamba", "linear")
"""what is trained by gradients unless models are named"""
MARKOV = ("ngram/kneser_ney", "ngram/context_tree", "ngram/hmm:states=16", "ngram/fixed_order:lags=4")
"""the Markov models, next to them"""


def markov_gap(
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for the models; the same command continues there", parser=folder, metavar="PATH"),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Argument(help="KIND, KIND:NAME=VALUE,… or a recipe; default: eight mixers and the Markov models"),
    ] = None,
    orders: Annotated[str, typer.Option(help="orders of the chains, e.g. 1,2,4,8")] = "1,2,3,4,5,6,8",
    states: Annotated[int, typer.Option(help="states of the chains; each is a letter", min=2, max=26)] = 4,
    context: Annotated[int, typer.Option(help="context of every model, in letters", min=1, max=1024)] = 4,
    hidden: Annotated[
        int, typer.Option(help="hidden states of an additional hidden Markov chain; 0: none", min=0, max=64)
    ] = 8,
    variable: Annotated[bool, typer.Option("--variable", help="use chains of variable order")] = False,
    batches: Annotated[
        int, typer.Option(help="training batches of the models that are trained by gradients", min=1, max=10**6)
    ] = 2000,
    batch: Annotated[int, typer.Option(help="windows of a training batch", min=1, max=10**6)] = 128,
    seeds: Annotated[int, typer.Option(help="models of each kind, with different initial weights")] = 1,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. model.dim=64")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")
    ] = False,
    jobs: Annotated[int, typer.Option(help="models that train at once, each on a share of the cores")] = 1,
) -> int:
    """Measures how far the loss of each model is above that of the true Markov chain, by the chain's order."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    model_names = [*(models or (*MODELS, *MARKOV))]
    chain_orders = sizes("--orders", orders)
    require_contenders(model_names, "tiny", ["data.source=stories", *(change or [])])
    from seqloom.cli.comparison import typed_command
    from seqloom.experiments.contenders import contender
    from seqloom.experiments.markov_gap import Gap, MarkovGap
    from seqloom.experiments.plan import plan as planned
    from seqloom.experiments.results import RESULTS
    from seqloom.experiments.runner import Workers, run
    from seqloom.experiments.study import Stopped
    from seqloom.experiments.summary import failures
    from seqloom.report.markov_gap import write

    gap = MarkovGap(
        [contender(text) for text in model_names],
        chain_orders,
        states,
        context,
        hidden,
        variable,
        batches,
        batch,
        seeds,
        change or [],
    )
    workers = Workers(jobs)
    if plan:
        print(planned(gap.study, models_folder, workers))
        return 0
    try:
        results = run(gap.study, models_folder, workers, command=typed_command())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    for line in failures(results):
        print(f"seqloom: {line}", file=sys.stderr)
    if rows := results.of(Gap):
        print("\n" + printed(rows))
        rows_path = models_folder / RESULTS
        print(f"\nthe report is {write(models_folder)}: open it in a browser; the rows are in {rows_path}")
    return 2 if results.failed else 0


def printed(rows: "Sequence[Gap]") -> str:
    """The gap of each model on each chain, means over the seeds; beneath it the loss of the true chain."""
    from seqloom.core.statistics import mean
    from seqloom.core.table import table

    sources = list(dict.fromkeys(row.source for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    cells: list[list[object]] = []
    for model in models:
        by_source = [[row.gap for row in rows if (row.model, row.source) == (model, source)] for source in sources]
        cells.append([model, *(mean(gaps) if gaps and None not in gaps else None for gaps in by_source)])
    truth = {row.source: row.truth for row in rows}
    rates = {row.source: row.rate for row in rows}
    cells.append(["the true chain's loss", *(truth[source] for source in sources)])
    cells.append(["the entropy rate, per letter", *(rates[source] for source in sources)])
    contexts = ", ".join(map(str, sorted({row.context for row in rows})))
    title = f"nats per token above the true chain; every model reads {contexts} letters"
    return "\n".join([title, "", table(["model", *sources], cells)])
