"""`seqloom study NAME …` and the list of studies. A study's command is imported when it is asked for or listed."""

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from seqloom.studies.installed import installed_studies, study_command


class StudyGroup(TyperGroup):
    """The studies that are installed, as commands."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all studies that can be imported; each other one is a line on standard error."""
        names = []
        for name in installed_studies():
            try:
                study_command(name)
            except ValueError as error:
                print(f"seqloom: {error}", file=sys.stderr)
            else:
                names.append(name)
        return names

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a study. ValueError where there is none of that name, and where it cannot be imported."""
        if cmd_name in installed_studies():
            return _command(cmd_name, study_command(cmd_name))
        from seqloom.core.config import suggestion

        advice = suggestion(cmd_name, installed_studies())
        raise ValueError(f"there is no study {cmd_name[:60]!r}: `seqloom study` lists them; {advice}")


def _command(name: str, function: Callable[..., Any]) -> Any:
    program = typer.Typer(add_completion=False)
    program.command(name)(function)
    return typer.main.get_command(program)


studies = typer.Typer(
    cls=StudyGroup,
    no_args_is_help=True,
    help="Studies of many runs: recall, texts beyond the trained length, Markov chains, agents, early exits, "
    "the Extractor paper's figures, the comparison of mixers at equal parameters (board), and those of other packages.",
)


@studies.callback()
def _studies() -> None:
    """Makes a group of the app, whose commands are found."""
