"""A text in one file: the same batches as the text itself, and files that are cut, altered or of other settings."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from seqloom.cli import command
from seqloom.data import archive
from seqloom.data.prepare import Corpus, prepare
from seqloom.runs.layout import Run
from tests.data.test_authors import library

SETTINGS = {"vocab": 300, "held_out": 0.1, "unwrap": "auto", "column": "text", "division": "authors"}
SETTINGS |= {"folds": 3, "fold": 1, "tokenizer": None}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("library")
    library(folder)
    cache = tmp_path_factory.mktemp("cache")
    chosen = {name: SETTINGS[name] for name in ("vocab", "held_out", "division", "folds", "fold")}
    return prepare(folder, context=4, cache=cache, **chosen)


@pytest.fixture
def path(corpus: Corpus, tmp_path: Path) -> Path:
    archive.write(corpus, SETTINGS, tmp_path / "text.tokens")
    return tmp_path / "text.tokens"


def test_a_corpus_is_read_as_it_was_written(corpus: Corpus, path: Path) -> None:
    again = archive.read(path, SETTINGS)
    for part, other in ((corpus.train, again.train), (corpus.held_out, again.held_out), (corpus.test, again.test)):
        assert part is not None
        assert other is not None
        assert np.array_equal(part.ids, other.ids)
        assert np.array_equal(part.starts, other.starts)
        assert np.array_equal(part.sizes, other.sizes)
        assert other.ids.flags.aligned
    assert again.identity == corpus.identity
    assert again.tokenizer.json == corpus.tokenizer.json
    assert again.division == corpus.division
    assert again.survey == corpus.survey
    assert isinstance(again.train.ids.base, np.ndarray)  # mapped, not copied


def test_the_same_corpus_gives_the_same_file(corpus: Corpus, path: Path, tmp_path: Path) -> None:
    archive.write(corpus, SETTINGS, tmp_path / "again.tokens")
    assert (tmp_path / "again.tokens").read_bytes() == path.read_bytes()
    with tarfile.open(path) as opened:
        assert opened.getnames() == ["corpus.json", "tokenizer.json", "train.tokens", "held.tokens", "test.tokens"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"vocab": 400},
            r"was prepared with data.vocab=300, and this run has 400: add --set data.vocab=300, or prepare",
        ),
        ({"fold": None}, "was prepared with data.fold=1, and this run has None"),
        ({"seed": 3}, "was prepared with data.seed=None, and this run has 3: add --set data.seed=null"),
        ({"tokenizer": "bytes"}, "was prepared with data.tokenizer=None, and this run has bytes"),
        (
            {"vocab": None, "tokenizer": "bytes"},
            r"data\.vocab=300 and data\.tokenizer=None, and this run has None and bytes: "
            r"add --set data\.vocab=300 --set data\.tokenizer=null, or",
        ),
    ],
)
def test_other_settings_are_named(path: Path, changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        archive.read(path, {**SETTINGS, **changed})


@pytest.mark.slow
def test_every_cut_and_every_altered_byte_is_an_error_of_one_line(path: Path) -> None:
    whole = path.read_bytes()
    with tarfile.open(path) as opened:
        end = max(member.offset_data + member.size for member in opened)  # zeros follow
    places = list(range(0, end, 997))
    noticed = 0
    for place in places:
        path.write_bytes(whole[:place])
        with pytest.raises(ValueError, match=r"text\.tokens") as error:
            archive.read(path, SETTINGS)
        assert "\n" not in str(error.value)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        message = error_of(path)
        assert "\n" not in message
        noticed += bool(message)
    assert noticed > 0.8 * len(places)


def error_of(path: Path) -> str:
    """The error of reading a file; "" where only padding was altered, so that it is read as it was written."""
    try:
        archive.read(path, SETTINGS)
    except ValueError as error:
        return str(error)
    return ""


def test_what_is_there_is_not_overwritten(corpus: Corpus, path: Path) -> None:
    with pytest.raises(ValueError, match="is there already: choose another --out"):
        archive.write(corpus, SETTINGS, path)
    with pytest.raises(ValueError, match=r"must end in \.tokens"):
        archive.write(corpus, SETTINGS, path.with_suffix(".txt"))


def test_an_out_that_is_there_is_an_error_before_the_text_is_read(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["data", "prepare", "missing/", "--out", str(path)]) == 2
    assert "is there already: choose another --out" in capsys.readouterr().err


def rewrite(path: Path, *, headers: dict[str, str] | None = None, **changed: object) -> None:
    """Writes the file again with these fields of corpus.json (under a right digest) and headers of the training ids."""
    with tarfile.open(path) as opened:
        members = {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]  # regular files
    head = {**json.loads(members["corpus.json"]), **changed}
    del head["sha256"]
    members["corpus.json"] = json.dumps({**head, "sha256": archive._digest(head)}).encode()
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as rewritten:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.pax_headers = (headers or {}) if name == "train.tokens" else {}
            rewritten.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    "changed",
    [
        *({"survey": None}, {"survey": {}}, {"division": []}, {"division": {}}, {"settings": None}),
        *({"checksums": None}, {"identity": None}, {"description": 3}),
    ],
)
def test_a_description_with_other_fields_is_an_error_of_one_line(path: Path, changed: dict[str, object]) -> None:
    rewrite(path, **changed)
    with pytest.raises(ValueError, match=r"text\.tokens is cut or altered: its corpus\.json is not"):
        archive.read(path, SETTINGS)


@pytest.mark.parametrize(
    "headers",
    [
        *({"size": "999999999999999"}, {"size": "9" * 400}, {"GNU.sparse.size": "x"}, {"GNU.sparse.map": "a,b"}),
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    ],
)
def test_extended_headers_are_an_error_that_names_the_file(path: Path, headers: dict[str, str]) -> None:
    rewrite(path, headers=headers)
    with pytest.raises(ValueError, match=r"text\.tokens is no file of tokens, or cut: `seqloom data prepare`"):
        archive.read(path, SETTINGS)


def test_members_under_any_other_name_are_not_read(corpus: Corpus, path: Path) -> None:
    with tarfile.open(path, "a") as opened:
        opened.addfile(tarfile.TarInfo("../../elsewhere"))
        opened.addfile(tarfile.TarInfo("/elsewhere"))
    assert archive.read(path, SETTINGS).identity == corpus.identity


@pytest.mark.parametrize("words", [["data"], ["data", "survey"], ["data", "vectors", "--out", "vectors.txt"]])
def test_where_text_is_read_a_file_of_tokens_is_named_as_one(
    path: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert command([*words, "text.tokens"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "text.tokens holds the tokens of a text (`seqloom data prepare`)" in line


@pytest.mark.slow
def test_a_run_of_the_file_is_the_run_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "data.vocab=300", "--set", "training.batches=2"]
    file = tmp_path / "stories.tokens"
    assert (
        command(["data", "prepare", "stories:30", "--preset", "tiny", "--out", str(file), "--set", "data.vocab=300"])
        == 0
    )
    assert f"{file.stat().st_size:,} bytes" in capsys.readouterr().out
    losses, other = [], ["--set", "data.held_out=0.2"]
    for name, source in (("text", "stories:30"), ("file", str(file))):
        assert command(["train", "tiny", "--data", source, "--out", str(tmp_path / name), *sizes]) == 0
        rows = Run(tmp_path / name).metrics.read_text().splitlines()
        losses.append([json.loads(row).get("loss") for row in rows])
    assert losses[0] == losses[1]
    assert Run(tmp_path / "text").identity == Run(tmp_path / "file").identity
    assert command(["train", "tiny", "--data", str(file), "--out", str(tmp_path / "other"), *other]) == 2
    assert "add --set data.held_out=0.05" in capsys.readouterr().err
