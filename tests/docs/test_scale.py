"""docs/scale.md: every command has the options that it names, and settings that fit each other."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from seqloom.cli.app import app
from seqloom.training.distributed import require_even
from seqloom.training.settings import resolve

TEXT = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.S) for line in block.splitlines()]


def parse(line: str) -> tuple[str, dict[str, Any]]:
    """The name of the command and its options; raises as the command line does where one is not known."""
    words = shlex.split(line)
    words = words[words.index("seqloom") + 1 :]
    command: Any = typer.main.get_command(app)
    context: Any = command.make_context("seqloom", list(words))
    while hasattr(command, "get_command"):
        name, *words = words
        command = command.get_command(context, name)
        context = command.make_context(name, list(words), parent=context)
    return name, context.params


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_page(line: str) -> None:
    name, options = parse(line)
    if name not in ("train", "plan"):
        return
    changes = list(options["change"] or [])
    if options.get("shard"):
        changes.append(f"training.shard={options['shard']}")
    config = resolve(options["preset"], ["data.source=stories", *changes])
    nodes, each = re.search(r"--nnodes (\d+)", line), re.search(r"--nproc-per-node (\d+)", line)
    size = int(nodes[1]) if nodes else 1
    require_even(config.training, size * int(each[1]) if each else options.get("processes") or options.get("gpus") or 1)


def test_the_page_has_commands_of_every_part() -> None:
    names = {parse(line)[0] for line in LINES}
    assert names >= {"plan", "train", "compare", "recall", "prepare"}
