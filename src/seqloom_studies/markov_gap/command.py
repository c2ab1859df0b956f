"""`seqloom study markov-gap`: models next to the true chain, as its order grows past their context."""

from typing import Annotated

import typer

from seqloom.cli.options import Jobs, ModelChanges, ModelsOut, Planned, Share, out_folder, sizes
from seqloom.cli.time_limit import time_limited

MODELS = ("attention:heads=4", "she", "he", "we", "me", "gru", "mamba", "linear")
"""what is trained by gradients unless models are named"""
MARKOV = ("ngram/kneser_ney", "ngram/context_tree", "ngram/hmm:states=16", "ngram/fixed_order:lags=4")
"""the Markov models, next to them"""


@time_limited
def command(
    out: ModelsOut = None,
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
    change: ModelChanges = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Measures how far the loss of each model is above that of the true Markov chain, by the chain's order."""
    from seqloom.cli.checked import require_contenders

    models_folder = out_folder(out, planned=plan)
    model_names = [*(models or (*MODELS, *MARKOV))]
    chain_orders = sizes("--orders", orders)
    require_contenders(model_names, "tiny", ["data.source=stories", *(change or [])])
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.markov_gap import page
    from seqloom_studies.markov_gap.study import MarkovGap

    gap = MarkovGap(
        [parse_candidate(text) for text in model_names],
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
    return run_study(gap.study, models_folder, Workers(jobs, share=share), page, planned=plan)
