"""`seqloom list`: the mixers, one of them, or lists of their backends and patterns."""

from typing import Annotated

import typer


def list_mixers(
    name: Annotated[
        str | None,
        typer.Argument(
            help="a mixer, to show it in full; or a layer of flash-linear-attention, a family of transformers, an "
            "attention option of x-transformers: what it is here"
        ),
    ] = None,
    family: Annotated[str | None, typer.Option(help="only this family, e.g. extractors or state_space")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="add the traits and the names of the settings")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print everything as one JSON object")] = False,
    show_backends: Annotated[
        bool, typer.Option("--backends", help="the backends of each op, and which run on this machine")
    ] = False,
    show_patterns: Annotated[
        bool, typer.Option("--patterns", help="draw with letters which keys each query attends to")
    ] = False,
) -> None:
    """Lists the mixers, or shows one in full: equation, settings, traits, price, source."""
    if (show_backends or show_patterns) and (name or family or wide or as_json or (show_backends and show_patterns)):
        option = "--backends" if show_backends else "--patterns"
        raise typer.BadParameter(f"{option} prints a list of its own: it takes no mixer and no other option")
    if show_backends:
        from seqloom.cli.work.environment import backends

        print(backends())
        return
    if show_patterns:
        from seqloom.cli.work.mixers import patterns

        print(patterns())
        return
    from seqloom.cli.work.mixers import format_mixer, format_mixers

    if name is not None and (family or wide):
        raise typer.BadParameter("--family and --wide apply to the list of all mixers: leave out the mixer")
    print(format_mixers(family, wide=wide, as_json=as_json) if name is None else format_mixer(name, as_json=as_json))
