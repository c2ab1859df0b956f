"""`seqloom tour`: from attention to Extractors in ten minutes, as a page of one's own sentence."""

from pathlib import Path
from typing import Annotated

import typer


def tour(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="runs of attention, he and gated_delta, or folders with such runs; default: the "
            "small models that come with seqloom"
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="a sentence of up to 12 tokens; the tokens after these are left out")
    ] = None,
    word: Annotated[str | None, typer.Option(help="the word of it that can be changed")] = None,
    out: Annotated[Path, typer.Option(help="the page", dir_okay=False)] = Path("runs/tour/tour.html"),
    browser: Annotated[bool, typer.Option(help="open the page")] = True,
) -> None:
    """Shows what attention, the HE Extractor and gated_delta do with a sentence, as a page that needs no network."""
    from seqloom.cli.work.tour import write_tour

    path = write_tour(folders or [], text, word, out)
    print(f"the page is {path}")
    if browser:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
