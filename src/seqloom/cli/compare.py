"""`seqloom compare`: models trained side by side; loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Again, Cluster, ClusterSet, Jobs, Planned, Share, folder, out_folder


def compare(
    out: Annotated[Path | None, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")] = None,
    mixers: Annotated[
        list[str] | None,
        typer.Argument(help="KIND, KIND:NAME=VALUE,… (attention:heads=32) or a recipe (llama/small)"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="all mixers at their defaults, with --lengths and all probes")
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(help="recipe of the data and training of all; default: the first one named, or paper/small"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "--source", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.batches=3000")
    ] = None,
    seeds: Annotated[int, typer.Option(help="runs of each mixer, with different initial weights and dropout")] = 1,
    match: Annotated[
        str | None,
        typer.Option(help="add a peer to each mixer, of equal params, mul (multiplications) or time per step"),
    ] = None,
    peer: Annotated[str, typer.Option(help="with --match: the mixer of the peer")] = "attention:heads=32",
    by: Annotated[
        str | None, typer.Option(help="with --match: the size of the peer that is changed: ffn, dim or depth")
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="a prompt for the sample texts; may be repeated")] = None,
    lengths: Annotated[
        str | None, typer.Option(help="time a token after each of these; with --all 128,1024,8192,65536")
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="a probe to train small models on; may be repeated; with --all every probe")
    ] = None,
    no_probes: Annotated[bool, typer.Option("--no-probes", help="with --all: train on no probe")] = False,
    probe_batches: Annotated[int, typer.Option(help="largest number of training batches of a probe")] = 1000,
    again: Again = None,
    plan: Planned = False,
    jobs: Jobs = 1,
    share: Share = False,
    cluster: Cluster = None,
    cluster_set: ClusterSet = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object in place of the table")] = False,
) -> int:
    """Trains mixers on identical batches, prints a table and writes a report; continues where it stopped.

    Differences are to the first mixer that is attention, or else to the first of all.
    """
    from seqloom.cli.checked import require_contenders
    from seqloom.studies.candidate import preset_of

    runs_folder = out_folder(out, planned=plan)
    preset = preset or preset_of(mixers or [])
    models = [*(mixers or []), *(["attention"] if every else []), *([peer] if match else [])]
    require_contenders(models, preset, change or [], data)
    from seqloom.cli.work.comparison import Options, run_comparison
    from seqloom.studies.runner import Workers

    options = Options(
        mixers=mixers or [],
        preset=preset,
        changes=change or [],
        source=data,
        seeds=seeds,
        equal=match,
        peer=peer,
        by=by,
        prompts=prompt or ["Once upon a time"],
        every=every,
        lengths=lengths,
        probes=[] if no_probes else probe,
        probe_batches=probe_batches,
        again=again or [],
    )
    if as_json and plan:
        raise ValueError("--plan has no rows: leave --json or --plan out")
    workers = Workers(jobs, cluster, tuple(cluster_set or ()), share)
    return run_comparison(options, runs_folder, workers, planned=plan, as_json=as_json)
