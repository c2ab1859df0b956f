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
) -> None:
    """Writes a folder for transformers, with the tokenizer; needs 'seqloom[hf]'.

    There: import seqloom.hf, then AutoModelForCausalLM.from_pretrained(FOLDER); or with trust_remote_code=True alone.
    """
    from seqloom.face import load

    try:
        from seqloom import hf as transformers_side
    except ImportError as error:
        raise ValueError(str(error)) from None
    print(f"the folder is {transformers_side.export(load(run, step=step), out)}")


@export.command()
def arpa(
    run: Run,
    out: Annotated[Path, typer.Option(help="the file to be written")],
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
) -> None:
    """Writes the n-grams of a Kneser-Ney run as an ARPA file, with the token names of tokenizer.json."""
    from seqloom.cli.arpa import written_as_arpa

    print(written_as_arpa(run, out, step))
