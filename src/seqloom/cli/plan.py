"""`seqloom plan`: what a training needs of each of its GPUs; loads nothing heavy before the settings are checked."""

from typing import Annotated

import typer


def plan(
    preset: Annotated[str, typer.Argument(help="a recipe (llama/125m, hybrid/350m) or a .yaml file")],
    gpus: Annotated[int, typer.Option(help="processes, each with a GPU", min=1, max=2**16)] = 1,
    shard: Annotated[
        str | None,
        typer.Option(help="none, fsdp (weights divided among all) or hybrid (among those of a machine)"),
    ] = None,
    per_machine: Annotated[int, typer.Option(help="GPUs of a machine", min=1, max=2**10)] = 8,
    peak: Annotated[
        float | None,
        typer.Option(help="10^12 operations a second of a GPU at best (in bf16 798: measured on an H100)"),
    ] = None,
    share_of_peak: Annotated[float, typer.Option(help="the share of the peak that a training reaches")] = 0.4,
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting, e.g. training.recompute=layer")] = None,
) -> None:
    """Counts memory by part, bytes sent and speed of a training on several GPUs; trains nothing and needs no GPU.

    Memory and bytes are counted by running a step without values; the speed follows from what is assumed.
    """
    from seqloom.cli.checked import require_settings

    changes = ["data.source=stories", *(change or []), *([] if shard is None else [f"training.shard={shard}"])]
    require_settings(preset, changes)
    from seqloom.cli.work.footprint import describe

    print(describe(preset, changes, gpus, per_machine, peak, share_of_peak))
