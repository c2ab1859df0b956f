"""`seqloom data SOURCE`, `data vectors` and `data nearest`: a source of text, and vectors of its words."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from seqloom.cli.options import TEXT


class SourceFirst(TyperGroup):
    """A group whose first word is a source of text unless it is a command: `data books/` is `data survey books/`."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if given else ["survey", *args])


data = typer.Typer(
    cls=SourceFirst,
    help="The contents of a source: `seqloom data SOURCE`, which `data survey SOURCE` says in full; vectors of words.",
)


@data.command()
def survey(
    source: Annotated[
        str,
        typer.Argument(help=f"{TEXT}, gutenberg-children, stories, or episodes:ENV:POLICY, as episodes:TMaze-30:mixed"),
    ],
    vocab: Annotated[
        int | None, typer.Option(help="entries of the tokenizer that is trained; 5000 unless one is given")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="a tokenizer.json, a folder of a Hugging Face tokenizer, bytes, characters, words"),
    ] = None,
    column: Annotated[str, typer.Option(help="the column or field of the text")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Prepares a source, building its tokenizer and token files, and prints what it holds and what was skipped.

    Episodes are recorded: ENV is an environment of gymnasium, as CartPole-v1, or TMaze-LENGTH; POLICY is random,
    scripted, mixed (scripted, then random), trained or replay (all that its training tried); then, if wanted,
    :COUNT:SEED. They are kept, and a run learns from them by the same name.
    """
    from seqloom.cli.survey import surveyed

    print(surveyed(source, vocab, tokenizer, column, as_json=as_json))


@data.command()
def vectors(
    source: Annotated[str, typer.Argument(help=f"{TEXT}, gutenberg-children, stories")],
    out: Annotated[Path, typer.Option(help="the file to be written: word2vec's, binary where it ends in .bin")],
    dim: Annotated[int, typer.Option(help="numbers of a vector", min=1, max=2**17)] = 100,
    window: Annotated[int, typer.Option(help="words on each side that a word predicts, at most", min=1)] = 5,
    negative: Annotated[int, typer.Option(help="drawn words that it tells from each of them", min=1)] = 5,
    least: Annotated[int, typer.Option(help="times that a word must come to have a vector", min=1)] = 5,
    epochs: Annotated[int, typer.Option(help="passes over the text", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="the same seed gives the same vectors", min=0, max=2**32 - 1)] = 0,
    column: Annotated[str, typer.Option(help="the column or field of the text")] = "text",
) -> None:
    """Learns vectors of the words of a text by skip-gram (gensim), for training.vectors and `data nearest`."""
    from seqloom.cli.word_vectors import learned

    print(learned(source, out, column, dim, window, negative, least, epochs, seed))


@data.command()
def nearest(
    file: Annotated[Path, typer.Argument(help="a file of vectors: word2vec's, text or binary, or GloVe's")],
    words: Annotated[list[str], typer.Argument(help="words that it has")],
    count: Annotated[int, typer.Option(help="neighbors of each", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Prints the words whose vectors are nearest to a word's, by the cosine of the angle between them."""
    from seqloom.cli.word_vectors import neighbors

    print(neighbors(file, words, count, as_json=as_json))
