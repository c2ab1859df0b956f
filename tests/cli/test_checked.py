"""The early check reports what the full check reports, or nothing: it is never stricter and has the same words."""

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import registry
from seqloom.cli.checked import require_contenders, require_mixer, require_settings
from seqloom.cli.work.mixers import format_mixers
from seqloom.cli.work.settings import settings_text as settings
from seqloom.core import mixer_config as core
from seqloom.core.mixer_config import mixer_config
from seqloom.mixers import kinds, plugins
from seqloom.training.settings import resolve
from tests.cli.bad_training import SETTINGS, TRAINING
from tests.test_readme import ADDED

VALUES: tuple[Any, ...] = (0, 1, 2, -1, 1.5, 0.0, True, "she", None, [1], {"kind": "he"}, 2**24 + 1, 10**30)
LEFT = {
    *("train-heads", "train-groups", "train-groups-negative", "train-accumulate", "train-betas", "train-betas-one"),
    *("train-mixer-word", "train-mixers-none", "train-op", "train-backend", "train-format"),
    *("train-warm-up", "train-warm-up-noam", "train-wsd", "train-vocab-none", "train-stages-window"),
    *("train-vocab-small", "train-masked-alone"),
    *("train-clusters", "train-buckets-odd", "train-linformer-causal", "train-fnet-causal", "train-landmarks"),
    *("stages-beyond", "stages-beyond-rows", "stages-context", "stages-some", "stages-sum", "stages-probe"),
}
"""mistakes that need the classes: one setting against another, what a validator converts, ops"""


def message(check: Any, *arguments: Any) -> str | None:
    try:
        check(*arguments)
    except (ValueError, OSError) as error:
        return str(error)
    return None


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", [name for name in kinds() if name in registry.read()["mixers"]])
def test_a_mixers_settings(kind: str) -> None:
    names = [name for name in kinds()[kind].model_fields if name != "kind"]
    for name in [*names, "hedas", "kind"]:
        for value in VALUES:
            early = message(require_mixer, {"kind": kind, name: value})
            full = message(mixer_config, {"kind": kind, name: value})
            assert early in (None, full), (name, value)
            if value == "she" and name in names and kinds()[kind].model_fields[name].annotation in (int, float, bool):
                assert early is not None, (name, value)


@pytest.mark.slow
@pytest.mark.parametrize("section", ["model", "data", "training"])
def test_the_settings_of_a_run(section: str) -> None:
    settings = next(part for part in registry.run() if part["name"] == section)["settings"]
    values = ("0", "-1", "1.5", "true", "word", "null", "[1]", "[0.5, 0.9]", "{kind: he}", "[{kind: hee}]", "1e30")
    for name in [*(setting["name"] for setting in settings), "nothing"]:
        for value in values:
            changes = [f"{section}.{name}={value}"]
            early, full = message(require_settings, "tiny", changes), message(resolve, "tiny", changes)
            assert early in (None, full), changes


@pytest.mark.parametrize(("name", "arguments"), [(name, words) for name, words, _ in [*SETTINGS, *TRAINING]])
def test_the_mistakes_of_the_command_line(name: str, arguments: list[str]) -> None:
    changes = [value for word, value in pairwise(arguments) if word == "--set"]
    early, full = message(require_settings, arguments[1], changes), message(resolve, arguments[1], changes)
    assert early == (None if name in LEFT else full)


def test_a_contender_may_replace_the_mixer_that_changes_are_of() -> None:
    require_contenders(["attention"], "tiny", ["model.mixer={kind: attention, heads: 2}"])
    require_contenders(["she", "attention:heads=2"], "demo", ["model.mixer.heads=4"])
    with pytest.raises(ValueError, match="unknown setting 'heads'"):
        require_contenders(["she:heads=2"], "demo")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package with a mixer `plugged`, and with `broken`, which cannot be imported."""
    (tmp_path / "plugged_mixer.py").write_text(ADDED.replace("running_mean", "plugged"))
    info = tmp_path / "plugged_mixer-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-mixer\nVersion: 1\n")
    points = ("[seqloom.mixers]", "their_mixers = plugged_mixer", "broken = plugged_mixer_absent")
    (info / "entry_points.txt").write_text("\n".join(points))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("plugged_mixer", None)
    plugins._loaded.clear()
    core.unregister("plugged")


def test_an_installed_mixer_is_listed_and_has_settings(package: Path) -> None:
    assert "plugged" in format_mixers()
    assert "plugged" in format_mixers("other", wide=True)
    assert "plugged" in json.loads(format_mixers(as_json=True))
    assert "their_mixers" not in format_mixers()
    plugins._loaded.clear()
    core.unregister("plugged")
    sys.modules.pop("plugged_mixer")
    assert "model.mixer, of kind plugged" in settings("plugged")


@pytest.mark.slow
def test_an_installed_mixer_is_imported_when_it_is_used(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert registry.installed_plugins()["their_mixers"] == "plugged-mixer"
    require_mixer({"kind": "she"})
    assert "plugged_mixer" not in sys.modules
    require_mixer({"kind": "plugged"})
    assert "plugged_mixer" in sys.modules
    assert "plugged_mixer_absent" in capsys.readouterr().err
    with pytest.raises(ValueError, match="unknown setting 'heads'"):
        require_mixer({"kind": "plugged", "heads": 2})
    with pytest.raises(ValueError, match="unknown mixer 'plugd'; did you mean 'plugged'"):
        require_mixer({"kind": "plugd"})
