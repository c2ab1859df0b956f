"""`seqloom export`: a run in a form that other programs read."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Run, folder

export = typer.Typer(
    no_args_is_help=True,
    help="Writes a run in a form that other programs read: hf (transformers), pt2 (torch), onnx, arpa (n-grams).",
)
Step = Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")]
Length = Annotated[
    int | None, typer.Option(help="tokens that the graph of whole texts reads; default: the model's context", min=2)
]
Capacity = Annotated[
    int | None,
    typer.Option(help="tokens for which a state that grows has room; default: the model's context", min=2),
]
Int8 = Annotated[
    bool, typer.Option("--int8", help="round the linear layers to int8, a quarter of the size (docs/hf.md)")
]


@export.command()
def hf(
    run: Run,
    out: Annotated[Path, typer.Argument(help="the folder to be written", parser=folder, metavar="FOLDER")],
    step: Step = None,
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
def pt2(
    run: Run,
    out: Annotated[Path, typer.Argument(help="the file to be written", metavar="FILE")],
    length: Length = None,
    capacity: Capacity = None,
    int8: Int8 = False,
    step: Step = None,
) -> None:
    """Writes an archive of torch.export: whole texts, and token by token with the state in and out.

    torch alone runs it: torch.export.load(FILE) is the graph of whole texts (docs/hf.md).
    """
    from seqloom.cli.work.export import export_graphs

    print(export_graphs("pt2", run, out, length, capacity, int8, step))


@export.command()
def onnx(
    run: Run,
    out: Annotated[Path, typer.Argument(help="the file of whole texts, such as model.onnx", metavar="FILE")],
    length: Length = None,
    capacity: Capacity = None,
    int8: Int8 = False,
    step: Step = None,
) -> None:
    """Writes texts as FILE.onnx, a state as FILE.start.onnx and a token as FILE.step.onnx; needs 'seqloom\\[onnx]'.

    onnxruntime alone runs them (docs/hf.md).
    """
    from seqloom.cli.work.export import export_graphs

    print(export_graphs("onnx", run, out, length, capacity, int8, step))


@export.command()
def arpa(
    run: Run,
    out: Annotated[Path, typer.Option(help="the file to be written")],
    step: Step = None,
) -> None:
    """Writes the n-grams of a Kneser-Ney run as an ARPA file, with the token names of tokenizer.json."""
    from seqloom.cli.work.export import export_arpa

    print(export_arpa(run, out, step))
