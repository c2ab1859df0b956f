"""`seqloom distill`: where the command is that had this name."""

import shlex

import typer


def distill(context: typer.Context) -> None:
    """Is `seqloom study poles` now: poles in place of the taps of HE, WE and ME."""
    words = shlex.join(["seqloom", "study", "poles", *context.args])
    raise ValueError(f"`seqloom distill` is `seqloom study poles` now: {words}")
