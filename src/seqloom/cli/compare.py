"""`seqloom compare` and `bench`: models trained, or mixers timed, side by side; loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder


def compare(
    out: Annotated[Path, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")],
    mixers: Annotated[
        list[str] | None,
        typer.Argument(help="KIND, KIND:NAME=VALUE,…, as attention:heads=32, or a recipe: llama/small"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="every kind at its own defaults, those named too; with --lengths and probes")
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(help="whose data and training all have: the first recipe named, else paper/small"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "--source", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all, as training.batches=3000")
    ] = None,
    seeds: Annotated[int, typer.Option(help="runs of each mixer, with other weights and dropout")] = 1,
    match: Annotated[
        str | None,
        typer.Option(help="next to each mixer, another model of equal params, mul (multiplications) or time of a step"),
    ] = None,
    peer: Annotated[str, typer.Option(help="what that other model mixes with")] = "attention:heads=32",
    by: Annotated[str | None, typer.Option(help="its size that changes: ffn, dim or depth")] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="what the sample texts begin with")] = None,
    lengths: Annotated[
        str | None, typer.Option(help="tokens after which one more is timed; with --all 128,1024,8192,65536")
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="a probe that small models are trained on; with --all all of them")
    ] = None,
    no_probes: Annotated[bool, typer.Option("--no-probes", help="none of them, with --all")] = False,
    probe_batches: Annotated[int, typer.Option(help="training batches of a probe at most")] = 1000,
    plan: Annotated[bool, typer.Option("--plan", help="print what it will take, and train nothing")] = False,
    jobs: Annotated[int, typer.Option(help="runs that train at once, with a share of the cores each")] = 1,
    cluster: Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(help="a setting of the jobs, as slurm_partition=gpu or timeout_min=600")
    ] = None,
) -> int:
    """Trains mixers on identical batches; prints one table and writes a report; continues where it stopped."""
    from seqloom.cli.checked import require_contenders
    from seqloom.experiments.contender import preset_of

    preset = preset or preset_of(mixers or [])
    named = [*(mixers or []), *(["attention"] if every else []), *([peer] if match else [])]
    require_contenders(named, preset, change or [], data)
    from seqloom.cli.comparison import Asked, compared
    from seqloom.experiments.runner import Workers

    asked = Asked(
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
    )
    return compared(asked, out, Workers(jobs, cluster, tuple(cluster_set or ())), planned=plan)


def bench(
    mixers: Annotated[list[str], typer.Argument(help="KIND or KIND:NAME=VALUE,…, as attention:heads=1")],
    against: Annotated[str, typer.Option(help="the mixer that all others are ratios to")] = "attention:heads=32",
    what: Annotated[
        str, typer.Option(help="sublayer: forward and backward; forward; token: one generated; step: of a whole model")
    ] = "sublayer",
    dim: Annotated[int | None, typer.Option(help="channels (128)")] = None,
    context: Annotated[int | None, typer.Option(help="tokens of a window (128)")] = None,
    batch: Annotated[int | None, typer.Option(help="windows read at once (as many as hold 8,192 tokens)")] = None,
    repeats: Annotated[int, typer.Option(help="rounds in which all take turns")] = 7,
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None,
    preset: Annotated[str | None, typer.Option(help="whose model and sizes a step trains (paper/small)")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="a folder for the rows; a race whose rows it holds is not run again", parser=folder, metavar="PATH"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Times mixers side by side, after checking that each computes what its reference does."""
    from seqloom.cli.checked import require_contenders

    require_contenders([*mixers, against], preset or "paper/small", ["data.source=stories"])
    from seqloom.cli.bench import timed

    sizes = {"dim": dim, "context": context, "batch": batch}
    text = timed(
        mixers, against, **sizes, what=what, repeats=repeats, threads=threads, preset=preset, as_json=as_json, out=out
    )
    print(text)
