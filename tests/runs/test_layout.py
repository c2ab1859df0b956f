"""A run's folder accepts only its own settings, and names the reason in one line where it does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs import layout
from seqloom.runs.layout import find_run, identity, open_run, tokenizer_digest, write_json

CONFIG = {"model": {"dim": 128, "mixer": {"kind": "she"}}, "lr": 0.001, "taps": [1, 2]}


def test_a_run_folder_is_made_and_opened_again(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a b" / "ü", CONFIG)
    assert run.settings == CONFIG
    assert run.identity == identity(CONFIG)
    assert open_run(run.folder, dict(reversed(CONFIG.items()))) == run
    assert open_run(run.folder, {**CONFIG, "taps": (1, 2)}, create=False) == find_run(run.folder) == run
    assert [path.name for path in run.folder.iterdir()] == ["config.json"]
    assert {path.name for path in (run.config, run.metrics, run.tokenizer, run.checkpoints)} == {
        *("config.json", "metrics.jsonl", "tokenizer.json", "checkpoints")
    }


OTHERS = [
    ({**CONFIG, "lr": 0.01}, "lr is 0.001 there and 0.01 here"),
    ({**CONFIG, "model": {"dim": 128, "mixer": {"kind": "he"}}}, 'model.mixer.kind is "she" there and "he" here'),
    ({**CONFIG, "seed": 3}, "seed is absent there and 3 here"),
    ({key: CONFIG[key] for key in ("model", "taps")}, "lr is 0.001 there and absent here"),
    ({**CONFIG, "taps": [1, True]}, r"taps is \[1,2\] there and \[1,true\] here"),
    ({**CONFIG, "a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "c is absent there and 1 here, and 2 more; choose another"),
    ({**CONFIG, "lr": "x" * 200}, r"x{50,60}\.\.\."),
]


@pytest.mark.parametrize(("config", "why"), OTHERS)
def test_other_settings(tmp_path: Path, config: dict, why: str) -> None:
    open_run(tmp_path, CONFIG)
    with pytest.raises(ValueError, match=why) as raised:
        open_run(tmp_path, config)
    assert "\n" not in str(raised.value)
    assert "choose another --out, or the same" in str(raised.value)
    assert find_run(tmp_path).settings == CONFIG


def test_equal_numbers_of_other_types_differ() -> None:
    assert len({identity({"a": value}) for value in (1, 1.0, True, "1")}) == 4


def test_wrong_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="a file is in its place: choose another --out"):
            open_run(folder, CONFIG)
    with pytest.raises(FileNotFoundError, match="none does not exist; give the folder of a run"):
        find_run(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="is not a run"):
        open_run(tmp_path, CONFIG, create=False)
    assert not (tmp_path / "none").exists()


def test_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refuse)
        with pytest.raises(ValueError, match=r"cannot make the folder .*Permission denied.*choose another --out"):
            open_run(tmp_path / "a", CONFIG)
    monkeypatch.setattr(layout, "replace", refuse)
    with pytest.raises(ValueError, match=r"cannot write in .*Permission denied.*choose another --out"):
        open_run(tmp_path / "a", CONFIG)


@pytest.mark.parametrize("text", [b"", b'{"a": 1', b"\xff\xfe", b"[1]", b"nonsense"])
def test_broken_settings(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match="put it back as it was written, or give another folder") as raised:
        open_run(tmp_path, CONFIG)
    assert str(tmp_path / "config.json") in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", [b'{"lr": 1, "sha256": "0"}', b'{"lr": 2, "sha256": 3}'])
def test_settings_that_are_not_under_their_digest(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ValueError, match="is altered: its sha256 is not that of its settings"):
        open_run(tmp_path, {"lr": 1})


def test_a_model_of_transformers_is_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2}))
    assert find_run(tmp_path).is_foreign
    with pytest.raises(ValueError, match="is a model of transformers, which is only read"):
        open_run(tmp_path, CONFIG)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "of_nobody"}))
    with pytest.raises(ValueError, match="models of type 'of_nobody' are not read; llama, "):
        assert find_run(tmp_path).settings


@pytest.mark.parametrize("settings", [{}, {"lr": 1}, {"architectures": None}, {"architectures": [3]}])
def test_a_config_that_no_run_has_written(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"is not a run: its config\.json has no sha256, so seqloom did not write it"):
        open_run(tmp_path, CONFIG)


def test_a_text_that_changed_since_is_said_in_words(tmp_path: Path) -> None:
    before = {"lr": 1, "data": {"vocab": 300, "identity": "a" * 64}, "tokenizer": "b" * 64}
    open_run(tmp_path, before)
    changed = {**before, "data": {"vocab": 300, "identity": "c" * 64}, "tokenizer": "d" * 64}
    with pytest.raises(ValueError, match=r"holds a run on another text, .* it has changed since the run was begun, or"):
        open_run(tmp_path, changed)
    with pytest.raises(ValueError, match=r"other settings: data\.vocab is 300 there and 400 here; choose another"):
        open_run(tmp_path, {**changed, "data": {"vocab": 400, "identity": "c" * 64}})


@pytest.mark.parametrize("data", [3, None, [1], {"unwrap": "no"}])
def test_a_text_that_is_not_described(tmp_path: Path, data: object) -> None:
    with pytest.raises(ValueError, match=r"config\.json does not describe a text: its 'data' is "):
        _ = open_run(tmp_path, {"data": data}).data


def test_the_file_is_plain_json_with_its_digest_last(tmp_path: Path) -> None:
    run = open_run(tmp_path, CONFIG)
    assert json.loads(run.config.read_text()) == {**CONFIG, "sha256": identity(CONFIG)}


def test_the_tokenizer_is_the_one_that_the_settings_name(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a", {"tokenizer": tokenizer_digest("text")})
    with pytest.raises(ValueError, match=r"has no tokenizer\.json, which its config\.json names: put it back"):
        run.has_tokenizer()
    run.keep_tokenizer("text")
    assert run.has_tokenizer()
    run.tokenizer.write_text("teXt")
    for look in (run.has_tokenizer, lambda: run.keep_tokenizer("text")):
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged or of another run: put the run's own back"):
            look()
    other = open_run(tmp_path / "b", {})
    assert not other.has_tokenizer()
    other.tokenizer.write_text("text")
    with pytest.raises(ValueError, match=r"is not of this run, whose config\.json names none"):
        other.has_tokenizer()


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints"])
def test_a_run_that_lost_its_settings(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=r"without its config\.json"):
        open_run(tmp_path, CONFIG)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    (tmp_path / "config.json.tmp-999999999").write_text("{")
    open_run(tmp_path, CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": [Path("x")]}])
def test_what_json_cannot_hold(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", value)
    assert list(tmp_path.iterdir()) == []
