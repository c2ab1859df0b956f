"""`seqloom export`: a run in a form that other programs read."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Run, folder

export = typer.Typer(
    no_args_is_help=True, help="Writes a run in a form that other programs read: hf (transformers), arpa (n-grams)."
)


@export.command()
def hf(
    run: Run,
    out: Annotated[Path, typer.Argument(help="the folder to be written", parser=folder, metavar="FOLDER")],
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    family: Annotated[
        str | None,
        typer.Option("--as", help="write it as this family of transformers', such as llama; seqloom: as ours"),
    ] = None,
) -> None:
    """Writes a folder for transformers, with the tokenizer. A model of theirs is written as what it came from.

    As ours it needs 'seqloom[hf]', and there import seqloom.hf, then AutoModelForCausalLM.from_pretrained(FOLDER), or
    with trust_remote_code=True alone. As one of their families it needs neither, here or there.
    """
    from seqloom.cli.work.export import export_model

    print(export_model(run, out, step, family))


@export.command()
def arpa(
    run: Run,
    out: Annotated[Path, typer.Option(help="the file to be written")],
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
) -> None:
    """Writes the n-grams of a Kneser-Ney run as an ARPA file, with the token names of tokenizer.json."""
    from seqloom.cli.arpa import written_as_arpa

    print(written_as_arpa(run, out, step))
