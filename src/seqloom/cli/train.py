"""`seqloom train`: one run; loads nothing heavy before it runs."""

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import TEXT, folder, out_folder
from seqloom.cli.over import AGAIN, OVER


def train(
    preset: Annotated[
        str | None,
        typer.Argument(
            help="a recipe (paper/small, llama/small, tiny) or a .yaml file; without one, --from gives the model"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="the folder of the run; the same command continues where it stopped", parser=folder, metavar="PATH"
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help=f"{TEXT}, gutenberg-children, stories")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting, e.g. model.mixer.kind=she")] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", help="initialize from the weights of this run where names and shapes agree", metavar="RUN"
        ),
    ] = None,
    within_documents: Annotated[bool, typer.Option(help="no training window crosses a document boundary")] = False,
    allow_drift: Annotated[
        bool, typer.Option(help="continue although torch, device, backends or code changed")
    ] = False,
    processes: Annotated[int, typer.Option(help="processes on this machine that share the training", min=1)] = 1,
    plan: Annotated[bool, typer.Option("--plan", help="print settings and price, and train nothing")] = False,
    log: Annotated[
        list[str] | None, typer.Option(help="a tracker that also gets the metrics: tensorboard, wandb, trackio")
    ] = None,
) -> int:
    """Trains a model, or continues its training; Ctrl-C saves.

    With `--processes 2`, or as `torchrun --nproc-per-node 2 -m seqloom train …`, each process reads its share of the
    rows of every batch, each on its own GPU if there are GPUs. A run can continue with any number of processes.

    On Linux the process keeps freed memory for the next step; SEQLOOM_KEEP_MEMORY=0 returns it to the system.
    """
    from seqloom.cli.checked import require_settings

    base, changes_of_base = _base(preset, begin)
    run_folder = out_folder(out, planned=plan)
    changes = [*changes_of_base, *(change or []), *(["data.within_documents=true"] if within_documents else [])]
    if begin is not None:
        changes.append(f"training.begin={json.dumps(begin)}")
    require_settings(base, changes, data)
    from seqloom.cli.work.fine_tuning import adapt
    from seqloom.core import launch
    from seqloom.training.distributed import require_even
    from seqloom.training.settings import resolve
    from seqloom.training.train import train as run

    notes: list[str] = []
    config = resolve(base, changes, source=data, log=notes.append)
    if plan:
        from seqloom.studies.plan import training

        print(training(config))
        return 0
    if processes > 1 and launch.size() == 1:
        require_even(config.training, processes)
        return _launch_processes(processes)
    if launch.rank() == 0:
        for note in notes:
            print(note, file=sys.stderr)
    outcome = run(config, run_folder, allow_drift=allow_drift, trackers=log or [], adapt=adapt)
    if launch.rank() > 0:
        return 0 if outcome.asked is None else 128 + int(outcome.asked)
    if outcome.asked is not None and outcome.step == outcome.first and OVER.is_set():
        raise ValueError("--minutes ended before one step was done: allow more; nothing is lost")
    if outcome.asked is not None:
        print(f"stopped after step {outcome.step:,} and saved; the same command continues from there", file=sys.stderr)
        return 128 + int(outcome.asked)
    if outcome.step == outcome.first:
        print(f"{run_folder} is trained: all {outcome.step:,} batches are done", file=sys.stderr)
    print(f"{run_folder}: {outcome.step:,} batches, {outcome.summary}")
    return 0


def _base(preset: str | None, begin: str | None) -> tuple[str, list[str]]:
    """The preset, or without one that of a run that continues from a model, with the changes that make it so."""
    if preset is not None:
        return preset, []
    if begin is None:
        raise ValueError("Missing argument 'preset': give a recipe, or --from FOLDER, which has a model")
    from seqloom.cli.work.fine_tuning import PRESET, changes_for

    return PRESET, changes_for(begin)


def _launch_processes(processes: int) -> int:
    """Runs this command again in this many processes of this machine, by torchrun's engine; returns the exit code.

    A failure is one line and exit code 2, where torchrun itself would print a traceback.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from seqloom.core.children import module_words

    logging.disable()  # the processes print why they end
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"seqloom-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)(*module_words("seqloom", *sys.argv[1:]))
    except ChildFailedError as error:
        return _code_of({failure.exitcode for failure in error.failures.values()})
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    return 0


def _code_of(codes: set[int]) -> int:
    """The exit code of a command whose processes ended with these."""
    if 1 in codes:
        return 1  # a fault of our own, whose traceback was printed
    stopped = {AGAIN, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGTERM}
    return AGAIN if AGAIN in codes and codes <= stopped else 2  # the first that is out of time stops the others
