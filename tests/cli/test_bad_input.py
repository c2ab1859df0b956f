"""Every mistake of a user is answered in one line, with exit code 2, and leaves no files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.at_once import first
from tests.cli.bad_commands import COMMANDS
from tests.cli.conftest import STEP, TINY, Answer, Seqloom

HOLD = (
    "import sys, time; from seqloom.runs.lock import lock\nwith lock(sys.argv[1]): print(1, flush=True); time.sleep(60)"
)


def refused(answer: Answer, *words: str) -> None:
    """Exit code 2 and one line, the last, that holds the words; before it at most what had already been done."""
    *before, line = answer.err.splitlines() or [""]
    assert answer.code == 2, answer
    assert line.startswith("seqloom: "), answer.err
    assert not any(message.startswith("seqloom: ") or "Traceback" in message for message in before), answer.err
    assert answer.out == ""
    missing = [word for word in words if word not in line]
    assert not missing, f"{missing} not in {line!r}"


def listing(*folders: Path) -> list[tuple[str, int]]:
    """Every file below the folders with its size; locks aside, whose text is rewritten."""
    result = []
    for folder in folders:
        for here, below, names in os.walk(folder):
            result += [(f"{here}/{name}", -1) for name in below]
            result += [(f"{here}/{name}", os.lstat(f"{here}/{name}").st_size) for name in names if name != "lock"]
    return sorted(result)


def _placed(word: str, **places: Path) -> str:
    for name, place in places.items():
        word = word.replace(f"{{{name}}}", str(place))
    return word


@pytest.mark.parametrize(("arguments", "words"), [case[1:] for case in COMMANDS], ids=[case[0] for case in COMMANDS])
def test_a_mistake_is_one_line(
    arguments: list[str],
    words: tuple[str, ...],
    seqloom: Seqloom,
    trained: Path,
    wrecks: Path,
    shelf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = listing(trained, wrecks, shelf)
    answer = seqloom(*(_placed(word, run=trained, wrecks=wrecks, shelf=shelf) for word in arguments))
    refused(answer, *words)
    said = [line for line in answer.err.splitlines() if not line.endswith(" left")]  # a slow machine prints progress
    assert len(said) == 1, answer.err
    left = {path.name for path in tmp_path.rglob("*")}
    assert left <= {"new", "lock"}, "it wrote something"
    assert listing(trained, wrecks, shelf) == before, "it changed what it was to read"


def test_the_table_is_long_and_its_names_are_unique() -> None:
    assert len(COMMANDS) >= 80
    assert len({case[0] for case in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize(
    "words", [["--data", "missing"], ["--set", "model.mixer.groups=5"], ["--set", "backends.lag_sum=x"]], ids=" ".join
)
def test_a_refused_training_makes_no_folder(
    seqloom: Seqloom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(seqloom("train", "tiny", "--out", "new", *words))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    first(2, [["lst"], [*TINY, "--out", "new", "--set", "training.lr=fast"], ["generate", "nowhere", "Once"]]),
    ids=" ".join,
)
def test_in_a_separate_process(arguments: list[str], tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from seqloom.cli import run; run()", *arguments]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    refused(Answer(done.returncode, done.stdout, done.stderr))
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_in_use(seqloom: Seqloom, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"1\n"
        answer = seqloom(*TINY, "--out", tmp_path / "run")
        holder.kill()
    refused(answer, f"in use by process {holder.pid}", "choose another --out")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
def test_a_run_in_use_can_be_read(seqloom: Seqloom, trained: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(trained)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"1\n"
        answer = seqloom("generate", trained, "Once", "--max-tokens", 3)
        holder.kill()
    assert answer.code == 0


@pytest.mark.slow
def test_drift_must_be_allowed(
    seqloom: Seqloom, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    again = ["train", "tiny", "--set", f"training.batches={STEP + 1}", "--out", tmp_path / "run"]
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "ELSE")
    before = listing(tmp_path)
    refused(seqloom(*again), "is ELSE", "--allow-drift")
    assert listing(tmp_path) == before
    allowed = seqloom(*again, "--allow-drift")
    assert allowed.code == 0, allowed.err
    assert "drift allowed: instructions was" in allowed.err


@pytest.mark.parametrize(
    ("wreck", "words"),
    [
        ("truncated", ("model.safetensors is truncated",)),
        ("flipped", ("model.safetensors is altered",)),
        ("half_manifest", ("manifest.json is unreadable",)),
    ],
)
def test_the_newest_checkpoint_is_damaged(seqloom: Seqloom, wrecks: Path, wreck: str, words: tuple[str, ...]) -> None:
    before = listing(wrecks)
    answer = seqloom("generate", wrecks / wreck, "Once")
    refused(answer, *words)
    assert f"step_{STEP:08d}" in answer.err.splitlines()[0]
    assert listing(wrecks) == before


@pytest.mark.slow
def test_no_training_on_a_newer_checkpoint(seqloom: Seqloom, wrecks: Path) -> None:
    before = listing(wrecks)
    refused(seqloom(*TINY, "--out", wrecks / "newer_checkpoint"), "written by a newer seqloom", "upgrade")
    assert listing(wrecks) == before


def test_books_without_a_network(seqloom: Seqloom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_GUTENBERG", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("seqloom.data.gutenberg.time.sleep", lambda seconds: None)
    answer = seqloom("train", "paper/small", "--out", tmp_path / "new")
    refused(answer, "could not reach http://127.0.0.1:9", "put the books as .txt files in a folder", "--data")
    assert all("trying again" in line for line in answer.err.splitlines()[:-1])


def test_a_refusal_of_the_system_is_one_line(
    seqloom: Seqloom, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *limits: int, **how: bool) -> bytes:
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr("seqloom.runs.layout.read_bytes", refuse)
    refused(seqloom("generate", trained, "Once"), "config.json: Permission denied")
