"""docs/systems.md is what `systems` writes, and every command in it is one that there is."""

import shlex

import pytest

from docs.making import systems
from seqloom.cli import command
from seqloom.mixers import kinds
from seqloom.studies.installed import installed_studies
from seqloom.training.settings import resolve

ALL = [system for group in systems.GROUPS.values() for system in group]


def test_the_page_is_current() -> None:
    assert systems.PAGE.read_text(encoding="utf-8") == systems.page(), "make pages"


def test_every_system_of_the_texts_is_there() -> None:
    """81 rows of the texts: some are one row here, ELIZA and SHRDLU are left out."""
    names = [system.name for system in ALL]
    assert len(set(names)) == len(names)
    assert len(names) + len(systems.OUTSIDE) >= 81
    assert {text for system in ALL for text in system.texts.split(", ")} == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize("system", ALL, ids=lambda system: system.name)
def test_its_command_is_there(system: systems.System, capsys: pytest.CaptureFixture[str]) -> None:
    program, verb, *words = shlex.split(system.command)
    assert program == "seqloom"
    if verb == "train":
        recipe, *options = words
        changes = [value for name, value in zip(options[::2], options[1::2], strict=True) if name == "--set"]
        source = dict(zip(options[::2], options[1::2], strict=True)).get("--data")
        assert resolve(recipe, changes, source).model is not None
        return
    if verb == "verify":
        assert words[0] in kinds()
        return
    named = [verb, words[0]] if verb in ("study", "data", "knn") else [verb]
    if verb == "study":
        assert words[0] in installed_studies()
    options = [word for word in words if word.startswith("--")]
    assert command([*named, "--help"]) == 0
    said = capsys.readouterr().out
    assert [option for option in options if option not in said] == []
