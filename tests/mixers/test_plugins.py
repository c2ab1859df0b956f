"""Installed packages register mixers by an entry point; one that fails is reported, and the others load."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.core import mixer_config as registry
from seqloom.core.mixer_config import BrokenMixer, MixerConfig
from seqloom.core.registry import Registry
from seqloom.mixers import kinds, mixer_config, plugins
from seqloom.training.settings import resolve

MIXER = """
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.mixers.linear.linear import LinearConfig

@register
class Own(LinearConfig):
    \"\"\"Somebody's own.\"\"\"
    kind: str = {kind!r}
"""
BARE = """
from typing import ClassVar
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register

@register
class Bare(MixerConfig):
    {body}
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


@pytest.mark.slow
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
        ("raise ValueError('\\x1b[2J')", r"ValueError: \x1b[2J"),
        (MIXER.format(kind=""), "ValueError: the kind of Own is '': it is a name of"),
        (MIXER.format(kind="a,b=c:d"), "ValueError: the kind of Own is 'a,b=c:d': it is a name of"),
        (MIXER.format(kind="../../evil"), "ValueError: the kind of Own is '../../evil': it is a name of"),
        (MIXER.format(kind="a\x1b[2Jb\n"), r"ValueError: the kind of Own is 'a\x1b[2Jb\n': it is a name of"),
        (MIXER.format(kind="null"), "ValueError: the kind of Own is 'null': it is a name of"),
        (MIXER.format(kind=3), "ValueError: the kind of Own is missing: it is a name of"),
        (BARE.format(body="kind: str = 'bare'"), "ValueError: bare has no traits: give Bare `traits"),
        (
            BARE.format(body="kind: str = 'bare'\n    traits: ClassVar = Traits('always', True, 'constant')"),
            "ValueError: bare is abstract: Bare has no make",
        ),
        (
            "from seqloom.core.mixer_config import unregister\nunregister('linear')\n" + MIXER.format(kind="linear"),
            "ValueError: a mixer is called 'linear' already",
        ),
    ],
    ids=[
        *("duplicate", "fails after it registered", "lacks a package", "no Python", "exits", "speaks to the terminal"),
        *("no name", "several settings", "a path", "control characters", "no text in YAML", "a number", "no traits"),
        *("no make", "replaces one of ours"),
    ],
)
def test_a_plugin_that_fails_is_one_line(
    install: Install, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    before = kinds()
    built_in = before["linear"]
    install("plugin_broken", text)
    install("plugin_zz", MIXER.format(kind="other"))
    assert list(kinds()) == [*before, "other"]
    assert kinds()["linear"] is built_in
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


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "both_ways", "mixer": {"kind": "inner"}},
        {"kind": "spade", "far": {"kind": "inner"}},
        {"kind": "both_ways", "mixer": {"kind": "spade", "near": {"kind": "inner"}}},
    ],
    ids=["both_ways", "spade", "deeper"],
)
def test_a_plugin_inside_another_mixer(install: Install, settings: dict[str, Any]) -> None:
    install("plugin_inner", MIXER.format(kind="inner"))
    assert "inner" not in registry.kinds()
    assert "inner" in str(mixer_config(settings).model_dump())


@pytest.mark.parametrize("change", ["model.mixer.mixer.kind=inner", "model.mixer.mixer={kind: inner, heads: 2}"])
def test_a_plugin_inside_the_mixer_of_a_recipe(install: Install, change: str) -> None:
    install("plugin_inner", MIXER.format(kind="inner"))
    config = resolve("encoder/small", ["model.mixer={kind: both_ways, mixer: {kind: linear}}", change])
    assert config.layered_model.pattern[0].model_dump()["mixer"]["kind"] == "inner"


def test_a_plugin_that_fails_leaves_those_that_it_imported(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("plugin_a", "from seqloom.mixers import kinds\nkinds()\n" + MIXER.format(kind="gone") + "1 / 0")
    install("plugin_b", MIXER.format(kind="stays"))
    assert "stays" in kinds()
    assert "gone" not in kinds()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_name_of_ours_is_ours_whichever_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    """A module of others can register before `seqloom.mixers` is imported."""
    first: Registry[MixerConfig] = Registry("mixer")
    linear, foreign = kinds()["linear"], type("Own", (kinds()["linear"],), {"__module__": "theirs"})
    assert first.register(foreign) is foreign
    first.register(linear)
    assert first.kinds() == {"linear": linear}
    assert capsys.readouterr().err == "seqloom: the mixer 'linear' of theirs is left out: it is one of ours\n"
    with pytest.raises(ValueError, match="a mixer is called 'linear' already"):
        first.register(foreign)


@pytest.mark.parametrize(
    ("body", "says"),
    [("raise SystemExit(0)", r"its code ends the program \(exit 0\)"), ("return None", "its make returns NoneType")],
)
def test_a_mixer_that_is_not_built(body: str, says: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def make(self, layer):\n    {body}", names)
    broken = type("Broken", (kinds()["linear"],), {"make": names["make"], "__module__": __name__})
    with pytest.raises(BrokenMixer, match=f"^linear cannot be built: {says}"):
        broken().build(8, 4)


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown mixer 'nobodys'"):
        mixer_config({"kind": "nobodys"})
    with pytest.raises(ValueError, match="unknown mixer"):
        mixer_config({"kind": ["she"]})
