"""Every kind of damage to any file of a checkpoint is detected, named in one line, and survived."""

import json
import random
from hashlib import sha256
from pathlib import Path

import pytest

from seqloom.runs import checkpoint, manifest
from seqloom.runs.checkpoint import Damaged
from seqloom.runs.durable import canonical
from tests.runs.saving import groups, is_whole, save

FILES = ["manifest.json", "meta.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "tok.json"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "given.json").write_text('{"model": "bpe"}')
    return checkpoint.save(
        tmp_path / "c d ü", 7, groups(7), {"step": 7, "lr": 0.1}, {"tok.json": tmp_path / "given.json"}
    )


def test_the_files(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == FILES
    assert len({path.stat().st_mode for path in saved.iterdir()}) == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.99])
def test_truncated(saved: Path, name: str, part: float) -> None:
    whole = (saved / name).read_bytes()
    (saved / name).write_bytes(whole[: int(len(whole) * part)])
    expected = "unreadable" if name == "manifest.json" else f"truncated: {int(len(whole) * part)} of {len(whole)} bytes"
    _refused(saved, name, expected)


@pytest.mark.parametrize("name", FILES)
def test_last_byte_lost_or_one_too_many(saved: Path, name: str) -> None:
    whole = (saved / name).read_bytes()
    (saved / name).write_bytes(whole[:-1])
    _refused(saved, name, "altered" if name == "manifest.json" else "truncated")
    (saved / name).write_bytes(whole + b" ")
    _refused(saved, name, "altered")


@pytest.mark.parametrize("name", FILES)
def test_deleted(saved: Path, name: str) -> None:
    (saved / name).unlink()
    _refused(saved, name, "missing")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_flipped_bits(saved: Path, name: str) -> None:
    whole = (saved / name).read_bytes()
    every = range(len(whole) * 8)
    for bit in random.Random(0).sample(every, min(60, len(every))):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (saved / name).write_bytes(flipped)
        with pytest.raises(Damaged, match=name):
            manifest.verify(saved)
    _refused(saved, name, "altered|unreadable")


@pytest.mark.slow
def test_every_bit_of_the_manifest(saved: Path) -> None:
    whole = (saved / "manifest.json").read_bytes()
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (saved / "manifest.json").write_bytes(flipped)
        with pytest.raises(Damaged):
            manifest.verify(saved)


def test_whole_files_of_another_step(saved: Path) -> None:
    other = save(saved.parent, 8)
    (other / "model.safetensors").replace(saved / "model.safetensors")
    _refused(saved, "model.safetensors", "altered")


def test_a_foreign_file_is_no_damage(saved: Path) -> None:
    (saved / ".DS_Store").write_bytes(b"x")
    assert is_whole(checkpoint.load(saved))


def test_renamed_to_another_step(saved: Path) -> None:
    with pytest.raises(Damaged, match="holds step 7"):
        checkpoint.load(saved.rename(saved.with_name("step_00000009")))


def test_a_copy_elsewhere_loads(saved: Path) -> None:
    assert is_whole(checkpoint.load(saved.rename(saved.with_name("best"))))


def test_quarantine_and_going_back(tmp_path: Path) -> None:
    message: list[str] = []
    for step in (1, 2, 3):
        save(tmp_path, step)
    (tmp_path / "step_00000003" / "meta.json").write_bytes(b"")
    (tmp_path / "step_00000002" / "manifest.json").unlink()
    seen = checkpoint.peek(tmp_path, message.append)
    assert seen is not None
    assert seen.step == 1
    assert len(list(tmp_path.glob("step_*"))) == 3
    assert len(message) == 2
    message.clear()
    result = checkpoint.newest(tmp_path, message.append)
    assert result is not None
    assert result.step == 1
    assert [("meta.json is truncated: 0 of" in line, "damaged-step_00000003" in line) for line in message] == [
        (True, True),
        (False, False),
    ]
    assert "\n" not in "".join(message)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("step_00000001", "damaged-step_00000002", "damaged-step_00000003")
    }
    save(tmp_path, 3)
    (tmp_path / "step_00000003" / "meta.json").write_bytes(b"")
    result = checkpoint.newest(tmp_path, message.append)
    assert (tmp_path / "damaged-step_00000003-2").is_dir()
    assert result is not None
    assert result.step == 1


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    for look in (checkpoint.newest, checkpoint.peek):
        assert look(tmp_path / "none") is None
        assert look(tmp_path) is None
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        checkpoint.load(tmp_path / "none")


def test_all_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (1, 2):
        (save(tmp_path, step) / "manifest.json").unlink()
    with pytest.raises(Damaged, match=r"step_00000002: manifest\.json is missing"):
        checkpoint.peek(tmp_path)
    assert capsys.readouterr().err == "", "one error is one line"
    assert checkpoint.newest(tmp_path) is None
    assert capsys.readouterr().err.count("manifest.json is missing") == 2


def test_newer_format_raises_and_stays(saved: Path) -> None:
    body = {"files": {"how": "new"}, "format": 3, "more": [1]}
    sealed = {**body, "sha256": sha256(canonical(body).encode()).hexdigest()}
    (saved / "manifest.json").write_text(canonical(sealed) + "\n")
    for look in (checkpoint.newest, checkpoint.peek):
        with pytest.raises(ValueError, match=r"newer seqloom \(format 3; this one reads up to 1\): upgrade") as raised:
            look(saved.parent)
        assert not isinstance(raised.value, Damaged)
    assert saved.is_dir()


def test_forbidden_is_not_damaged(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(manifest, "_sum", refuse)
    with pytest.raises(PermissionError):
        checkpoint.newest(saved.parent)
    assert saved.is_dir()


def test_a_failing_disk_is_damage(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(manifest, "_sum", fail)
    _refused(saved, "meta.json", "Input/output error")


def test_the_manifest_is_plain_json(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert set(manifest["files"]) == set(FILES) - {"manifest.json"}


def _refused(path: Path, name: str, why: str) -> None:
    with pytest.raises(Damaged, match=why) as raised:
        checkpoint.load(path)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)
