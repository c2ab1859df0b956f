"""Installed packages register mixers by an entry point; one that fails is reported, and the others load."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqloom.core import mixer_config as registry
from seqloom.mixers import kinds, mixer_config, plugins

MIXER = """
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.mixers.linear.linear import LinearConfig

@register
class Own(LinearConfig):
    \"\"\"Somebody's own.\"\"\"
    kind: str = {kind!r}
"""
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package `name` whose one module holds a text, with an entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", set())
    before = registry.kinds()
    modules = set(sys.modules)

    def put(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[seqloom.mixers]\nown = {name}\n")

    yield put
    for name in registry.kinds().keys() - before.keys():
        registry.unregister(name)
    for name in set(sys.modules) - modules:
        if name.startswith("plugin_"):
            del sys.modules[name]


def test_a_plugin_is_a_mixer(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("plugin_good", MIXER.format(kind="good"))
    assert "good" not in registry.kinds()
    built = mixer_config({"kind": "good", "heads": 2}).build(8, 4)
    assert built.dim == 8
    assert list(kinds())[-1] == "good"
    assert capsys.readouterr().err == ""


def test_ours_are_there_without_plugins(install: Install) -> None:
    install("plugin_unused", "raise AssertionError")
    mixer_config({"kind": "linear"})
    assert "plugin_unused" not in sys.modules


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            MIXER.format(kind="linear"),
            "ValueError: a mixer is called 'linear' already, by seqloom.mixers.linear.linear",
        ),
        (MIXER.format(kind="half") + "1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("def", "SyntaxError"),
        ("raise SystemExit('a\\nb')", "SystemExit: a b"),
    ],
    ids=["duplicate", "fails after it registered", "lacks a package", "no Python", "exits"],
)
def test_a_plugin_that_fails_is_one_line(
    install: Install, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    before = kinds()
    install("plugin_broken", text)
    install("plugin_zz", MIXER.format(kind="other"))
    assert list(kinds()) == [*before, "other"]
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    assert err.startswith("seqloom: the mixers of plugin_broken (plugin_broken) are left out: ")
    assert says in err
    kinds()
    assert capsys.readouterr().err == "", "it is reported once"


def test_two_plugins_of_one_name(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("plugin_a", MIXER.format(kind="twin"))
    install("plugin_b", MIXER.format(kind="twin"))
    assert list(kinds()).count("twin") == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "a mixer is called 'twin' already, by plugin_" in err


def test_a_plugin_that_asks_for_mixers_itself(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("plugin_asks", "from seqloom.mixers import kinds\nkinds()\n" + MIXER.format(kind="asked"))
    assert "asked" in kinds()
    assert capsys.readouterr().err == ""


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown mixer 'nobodys'"):
        mixer_config({"kind": "nobodys"})
    with pytest.raises(ValueError, match="unknown mixer"):
        mixer_config({"kind": ["she"]})
