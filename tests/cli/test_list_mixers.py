"""`list` and `settings`: every mixer and every setting, in 80 columns."""

import json

import pytest

from seqloom.cli import registry
from seqloom.cli.work.settings import type_text
from seqloom.mixers import FAMILIES, kinds
from tests.cli.conftest import Seqloom

MIXERS = registry.read()["mixers"]


def test_the_list_fits_80_columns(seqloom: Seqloom) -> None:
    lines = seqloom("list").out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(kinds())
    assert max(len(line) for line in lines) <= 80
    assert lines[2].split(maxsplit=2) == ["attention", "attention", "Multi-head self-attention"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str, seqloom: Seqloom) -> None:
    names = [line.split()[0] for line in seqloom("list", "--family", family).out.splitlines()[2:]]
    assert names == [name for name, mixer in MIXERS.items() if mixer["family"] == family]
    assert list(json.loads(seqloom("list", "--family", family, "--json").out)) == names


def test_the_wide_list_has_the_traits(seqloom: Seqloom) -> None:
    line = seqloom("list", "--wide").out.splitlines()[2]
    words = line.split()
    first = words.index("either")
    assert words[first : first + 7] == ["either", "yes", "grows", "any", "no", "heads,", "kv_heads,"]


@pytest.mark.parametrize("kind", ["she", "spade", "me"])
def test_one_mixer_whole(kind: str, seqloom: Seqloom) -> None:
    answer, mixer = seqloom("list", kind), MIXERS[kind]
    assert mixer["equation"] in answer.out
    assert mixer["source"] in answer.out
    assert f"state: {mixer['traits']['state']}" in answer.out
    assert f"{mixer['price']['row']['total']:,}" in answer.out
    assert f"{mixer['price']['token']['state']:,}" in answer.out
    for setting in mixer["settings"]:
        assert f"  {setting['name']}: {type_text(setting)}, default " in answer.out
    assert json.loads(seqloom("list", kind, "--json").out) == {kind: mixer}


@pytest.mark.slow
def test_the_price_is_that_of_cost(seqloom: Seqloom) -> None:
    equation = json.loads(seqloom("cost", "he", "--dim", 128, "--context", 128, "--json").out)["equation"]
    assert MIXERS["he"]["price"]["row"] == {name: equation[name] for name in ("total", "params", "state")}


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("training.lr", ["training", "  lr: float > 0, default 0.001"]),
        ("lr", ["training", "  lr: float > 0, default 0.001", "model.mixer, of kind s4"]),
        ("clip", ["training", "  clip: float > 0, or null, default null"]),
        ("data", ["data", "  source: str, required", "  held_out: float > 0, < 1, default 0.05"]),
        ("precision", ["training", '  precision: float32 | tf32 | bf16 | float64 | auto, default "float32"']),
        ("groups", ["model.mixer, of kind extractor", "  groups: int | shared, default 1"]),
        ("she", ["model.mixer, of kind she", "  groups: int >= 1, default 1"]),
        ("model.mixer.she", ["model.mixer, of kind she", "  groups: int >= 1, default 1"]),
        ("model.mixer", ["model", "  mixer: mixer | list of mixers, required", "model.mixer, of kind hyena"]),
        ("model.mixer.window", ["model.mixer, of kind attention", "model.mixer, of kind aft_local"]),
        ("evaluat", ["training", "  evaluate_every: int >= 0, <= 1,099,511,627,776, default 0"]),
        ("aft_simple", ["model.mixer, of kind aft_simple", "  no settings"]),
        ("backends", ["run", "  backends: mapping, default {}"]),
    ],
)
def test_settings_are_found(path: str, lines: list[str], seqloom: Seqloom) -> None:
    answer = seqloom("settings", path)
    assert (answer.code, answer.err) == (0, "")
    assert set(lines) <= set(answer.out.splitlines())
    assert json.loads(seqloom("settings", path, "--json").out)


def test_a_path_finds_nothing_else(seqloom: Seqloom) -> None:
    assert json.loads(seqloom("settings", "training.lr", "--json").out).keys() == {"training"}
    assert json.loads(seqloom("settings", "lr", "--json").out).keys() == {
        *("training", "training.stages[]", "model.mixer (s4)"),
    }


def test_all_settings(seqloom: Seqloom) -> None:
    everything = json.loads(seqloom("settings", "--json").out)
    assert everything["run"] == registry.run()
    assert list(everything["mixers"]) == list(kinds())
    text = seqloom("settings").out
    assert "\ntraining\n  batches: int" in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.slow
def test_a_narrow_terminal(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert max(len(line) for line in seqloom("settings", "training").out.splitlines()) <= 40
    for words in (["list"], ["list", "she"], ["--help"], ["train", "--help"]):
        assert seqloom(*words).code == 0
