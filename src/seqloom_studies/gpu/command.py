"""`seqloom study gpu`: the queue of a GPU, or its plan. Loads nothing heavy before it runs."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder
from seqloom.cli.time_limit import BEGAN, Minutes, limited_to, require_above_zero

EARLIER = Path("results/gpu")
"""rows that came back from a card before"""


def command(
    minutes: Minutes = None,
    out: Annotated[
        Path, typer.Option(help="the folder for rows.jsonl and what else comes back", parser=folder, metavar="PATH")
    ] = Path("runs/gpu-out"),
    books: Annotated[
        Path | None,
        typer.Option("--data", help="a folder of texts with their authors", parser=folder, metavar="PATH"),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="the text of the paper's figures, by `seqloom data prepare`", parser=folder, metavar="PATH"),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print the items and their minutes, and run nothing")] = False,
    commit: Annotated[str | None, typer.Option(help="the commit of this code, where .git is not there")] = None,
    packs: Annotated[
        Path, typer.Option(help="with --commit: the folder of packs, which hold the digest of its src/", parser=folder)
    ] = Path("build/gpu"),
    device: Annotated[str, typer.Option(help="cuda; cpu checks the queue, with --tiny")] = "cuda",
    tiny: Annotated[bool, typer.Option("--tiny", help="tiny sizes, to check that everything runs")] = False,
) -> int:
    """Measures and trains on a GPU what is worth most, as much as `--minutes` hold; the same command continues."""
    if device not in ("cuda", "cpu"):
        raise ValueError(f"--device must be cuda or cpu, not {device!r}")
    if device == "cpu" and not tiny:
        raise ValueError("the queue's sizes are for a GPU: --device cpu checks it together with --tiny")
    from seqloom_studies.gpu.call import Call, act, plan_call, require_minutes

    call = Call(out, books, tokens, commit, packs, device, tiny, EARLIER)
    if minutes is not None:
        require_above_zero(minutes)
    if plan:
        print(plan_call(call, minutes))
        return 0
    if minutes is None:
        raise ValueError("--minutes says how long the call may take, its start counted in, such as --minutes 8")
    require_minutes(minutes)
    return int(limited_to(minutes, lambda: act(call, minutes, BEGAN)))
