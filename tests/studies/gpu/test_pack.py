"""Packs: what is refused, what the scripts do, and the sizes; nothing is downloaded."""

import random
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from seqloom.data import learned_tokenizer
from seqloom_studies.board.study import Board
from seqloom_studies.gpu import call, pack
from seqloom_studies.gpu.card import source_digest
from seqloom_studies.paper.scales import SCALES


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels of few files, nothing to strip, quick compression."""

    def unpack(folder: Path, packages: Sequence[str], *, needs: bool = False) -> None:
        for name in ("_C/libtriton.so", "backends/nvidia/bin/ptxas", "profiler/__init__.py", "__init__.py"):
            path = folder / "triton" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x = 1\n")

    monkeypatch.setattr(pack, "_unpack_wheels", unpack)
    monkeypatch.setattr(pack, "_strip", lambda library: None)
    monkeypatch.setattr(pack, "XZ", [{"id": pack.lzma.FILTER_LZMA2, "preset": 0}])


def test_a_pack_of_triton_has_what_compiles_kernels_and_is_made_once(tmp_path: Path) -> None:
    folder = pack.pack_triton(tmp_path)
    path = folder / f"triton-{pack.TRITON}.tar.xz"
    with tarfile.open(path) as made:
        names = made.getnames()
    assert "./triton/_C/libtriton.so" in names
    assert not [name for name in names if "profiler" in name]
    before = path.stat().st_mtime_ns
    pack.pack_triton(tmp_path)
    assert path.stat().st_mtime_ns == before


def test_a_pack_of_the_queue_names_the_commit_and_takes_kernels_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "commit", lambda: "abc1234")
    monkeypatch.setattr(pack, "tag", lambda: None)
    (tmp_path / "caches-card-2.11-3.7.1.tar.gz").write_bytes(b"kernels")
    folder = pack.pack_queue(tmp_path / "queue", None, tmp_path, scratch=True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "caches-card-2.11-3.7.1.tar.gz",
        "run.sh",
        "site.tar.xz",
        "stamp.json",
    ]
    assert f'"commit": "abc1234", "tag": null, "source": "{source_digest()}"' in (folder / "stamp.json").read_text()
    assert "--commit abc1234 " in (folder / "run.sh").read_text()


def test_code_of_no_commit_and_texts_that_are_not_there_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pack, "commit", lambda: "abc1234+")
    with pytest.raises(ValueError, match="with changes that were not committed"):
        pack.pack_queue(tmp_path / "queue", None, tmp_path)
    assert pack.main(["--out", str(tmp_path), "--scratch", "--data", str(tmp_path / "gone")]) == 2
    assert capsys.readouterr().err.endswith("gone: there is no such folder of texts\n")


def test_a_call_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1000)
    monkeypatch.setattr(pack, "_tracked_files", lambda: [tmp_path / "large"])
    text = pack.sizes({"triton": tmp_path}, most=2000)
    assert text.splitlines()[-1].split() == ["call", "1", "all", "2,000"]
    with pytest.raises(ValueError, match="call 1 would have 2,000 bytes, and at most 1,999 travel"):
        pack.sizes({"triton": tmp_path}, most=1999)


@pytest.mark.parametrize("text", [pack.UNPACK, pack.RUN])
def test_the_scripts_are_sound(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "script.sh").write_text(text)
    assert subprocess.run(["sh", "-n", tmp_path / "script.sh"], check=False).returncode == 0
    if text == pack.RUN:
        done = subprocess.run(
            ["sh", tmp_path / "script.sh", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (2, "run this from the root of the tree\n")


@pytest.mark.slow
def test_a_machine_with_the_packed_texts_trains_no_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    (tmp_path / "books").mkdir()
    for number in range(24):
        text = " ".join(
            draw.choices(["the", "little", "girl", "went", "into", "a", "dark", "old", "wood", "of", "bread"], k=300)
        )
        (tmp_path / "books" / f"Name{number} Person{number} - A Tale.txt").write_text(text)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "own"))
    pack._prepare_texts(tmp_path / "books", tmp_path / "made")
    assert not list((tmp_path / "made").rglob("train-*.tokens")), "ids are made there"
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "made" / "cache"))
    monkeypatch.setattr(learned_tokenizer, "_train_tokenizer", lambda *_: pytest.fail("a tokenizer is trained"))
    board = Board(str(tmp_path / "made" / "books"))
    assert board.corpus(9).test is not None
    assert board.corpus(None).test is None
    call._require_tokens(tmp_path / "made" / "table1.tokens", SCALES["full"])
