"""`seqloom data SOURCE`, `data prepare`, `data vectors`, `data nearest`: a source of text, and vectors of its words."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from seqloom.cli.options import COLUMN, SEPARATOR, TEXT, folder


class SourceFirst(TyperGroup):
    """A group whose first word is a source of text unless it is a command: `data books/` is `data survey books/`."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names_command = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if names_command else ["survey", *args])


data = typer.Typer(
    cls=SourceFirst,
    help="Describes a source of text: `seqloom data SOURCE`, short for `data survey SOURCE`; learns vectors of words.",
)


@data.command()
def survey(
    source: Annotated[
        str,
        typer.Argument(help=f"{TEXT}, gutenberg-children, stories, or episodes:ENV:POLICY"),
    ],
    vocab: Annotated[
        int | None, typer.Option(help="entries of the tokenizer to train (5000 without --tokenizer)")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="a tokenizer.json, a Hugging Face tokenizer's folder, bytes, characters or words"),
    ] = None,
    column: Annotated[str, typer.Option(help=COLUMN)] = "text",
    separator: Annotated[str | None, typer.Option(help=SEPARATOR)] = None,
    workers: Annotated[
        int, typer.Option(help="processes that turn the text into tokens; 0: threads", min=0, max=1024)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Prepares a source (tokenizer and token files) and prints its size, its longest documents and what was skipped.

    For episodes:ENV:POLICY[:COUNT[:SEED]], records episodes. ENV is an environment of gymnasium, e.g. CartPole-v1, or
    TMaze-LENGTH; POLICY is random, scripted, mixed (scripted, then random), trained, or replay (all episodes that the
    training of the policy tried). They are stored, and `seqloom train --data` takes the same name.
    """
    from seqloom.cli.work.survey import survey_source

    print(survey_source(source, vocab, tokenizer, column, separator, workers, as_json=as_json))


@data.command()
def prepare(
    source: Annotated[str, typer.Argument(help=f"{TEXT}, gutenberg-children, stories")],
    out: Annotated[Path, typer.Option(help="the file to write; its name ends in .tokens", parser=folder)],
    preset: Annotated[str, typer.Option(help="the recipe whose settings of the text hold")] = "paper/small",
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting, e.g. data.vocab=2048")] = None,
) -> None:
    """Writes a text as one file of tokens, with its tokenizer: `train --data FILE` then needs the text no more.

    A run of the file has the same batches and the same identity as one of the text, on any machine.
    """
    from seqloom.cli.checked import require_settings

    require_settings(preset, change or [], source)
    from seqloom.cli.work.survey import write_tokens

    print(write_tokens(source, out, preset, change or []))


@data.command()
def vectors(
    source: Annotated[str, typer.Argument(help=f"{TEXT}, gutenberg-children, stories")],
    out: Annotated[Path, typer.Option(help="the file to write, in word2vec's format; binary if it ends in .bin")],
    dim: Annotated[int, typer.Option(help="dimensions of a vector", min=1, max=2**17)] = 100,
    window: Annotated[int, typer.Option(help="largest distance of a context word, on each side", min=1)] = 5,
    negative: Annotated[int, typer.Option(help="negative samples per context word", min=1)] = 5,
    least: Annotated[int, typer.Option(help="smallest count of a word to have a vector", min=1)] = 5,
    epochs: Annotated[int, typer.Option(help="passes over the text", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="the same seed gives the same vectors", min=0, max=2**32 - 1)] = 0,
    column: Annotated[str, typer.Option(help=COLUMN)] = "text",
) -> None:
    """Learns vectors of the words of a text by skip-gram (gensim), for training.vectors and `data nearest`."""
    from seqloom.cli.work.word_vectors import learn_vectors

    print(learn_vectors(source, out, column, dim, window, negative, least, epochs, seed))


@data.command()
def nearest(
    file: Annotated[Path, typer.Argument(help="a file of vectors, in word2vec's (text or binary) or GloVe's format")],
    words: Annotated[list[str], typer.Argument(help="words of the file")],
    count: Annotated[int, typer.Option(help="neighbors of each word", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Prints the words whose vectors are nearest to those of the given words, by cosine similarity."""
    from seqloom.cli.work.word_vectors import neighbors

    print(neighbors(file, words, count, as_json=as_json))
