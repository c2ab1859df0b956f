"""`list` and `compare --all` where a mixer of another package is broken: it is named in one line, the rest is there."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqloom.cli import registry
from seqloom.core import mixer_config
from seqloom.mixers import kinds, plugins
from seqloom.studies.all_mixers import all_mixers, fitting
from tests.cli.conftest import Answer

pytestmark = pytest.mark.slow

HEAD = """
from seqloom.core.mixer_config import register
from seqloom.mixers.linear.linear import LinearConfig
"""
MIXER = """
@register
class {name}(LinearConfig):
    kind: str = {name!r}
    def make(self, layer):
        {make}
"""
BROKEN = {
    "raises": ("raise TypeError('no GPU\\n here')", "TypeError: no GPU here"),
    "exits": ("raise SystemExit(0)", "BrokenMixer: exits cannot be built: its code ends the program (exit 0)"),
    "nothing": ("return None", "BrokenMixer: nothing cannot be built: its make returns NoneType and not a mixer"),
}


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package whose mixers cannot be built, and one that can."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", set())
    makes = {name: make for name, (make, _) in BROKEN.items()} | {"sound": "return LinearConfig.make(self, layer)"}
    text = "".join(MIXER.format(name=name, make=make) for name, make in makes.items())
    (tmp_path / "plugin_many.py").write_text(HEAD + text)
    folder = tmp_path / "plugin_many-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin_many\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[seqloom.mixers]\nown = plugin_many\n")
    yield
    for name in makes.keys() & mixer_config.kinds().keys():
        mixer_config.unregister(name)
    sys.modules.pop("plugin_many", None)


@pytest.mark.usefixtures("broken")
def test_a_broken_mixer_is_named_and_the_rest_is_listed(seqloom: Callable[..., Answer]) -> None:
    answer = seqloom("list")
    assert answer.code == 0
    lines = [f"seqloom: the mixer {name!r} of plugin_many is left out: {why}" for name, (_, why) in BROKEN.items()]
    assert answer.err.splitlines() == lines
    assert [line.split()[0] for line in answer.out.splitlines()[2:]] == [*registry.read()["mixers"], "sound"]
    one = seqloom("list", "raises")
    assert (one.code, one.err.count("\n")) == (2, 1)
    assert "unknown mixer 'raises'" in one.err


@pytest.mark.usefixtures("broken")
def test_a_comparison_of_all_goes_without_it() -> None:
    assert "raises" in kinds()
    candidates = [contender for contender in all_mixers() if contender.name in (*BROKEN, "sound", "linear")]
    fit, left_out = fitting(candidates, "tiny", [])
    assert [contender.name for contender in fit] == ["linear", "sound"]
    assert left_out["raises"] == "TypeError: no GPU here"
    assert "ends the program" in left_out["exits"]
    with pytest.raises(TypeError, match="no GPU"):
        fitting(candidates, "tiny", [], named=["raises"])


@pytest.mark.usefixtures("broken")
def test_its_settings_are_checked_without_building_it(seqloom: Callable[..., Answer], tmp_path: Path) -> None:
    answer = seqloom("train", "tiny", "--set", "model.mixer={kind: raises, haeds: 2}", "--out", tmp_path / "run")
    assert answer.code == 2
    assert "did you mean 'heads'?" in answer.err
    assert "left out" not in answer.err
