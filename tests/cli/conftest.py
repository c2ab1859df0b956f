"""A tiny trained run, copies of it that are each broken in one way, and files that are no text."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from seqloom.cli import command
from seqloom.ops.native.store import folder
from seqloom.runs.layout import seal_settings
from seqloom.runs.manifest import NAME, _seal_body
from seqloom.training.settings import resolve
from seqloom.training.train import train

STEP = 3
CHECKPOINT = f"checkpoints/step_{STEP:08d}"
TINY = ["train", "tiny", "--set", f"training.batches={STEP}"]


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


Seqloom = Callable[..., Answer]
"""runs a command in this process: the fixture `seqloom`"""


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the session's own, with the libraries that are compiled already: no command compiles, and says so."""
    cache = tmp_path_factory.mktemp("cache")
    if folder().is_dir():
        shutil.copytree(folder(), cache / "native")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(cache))
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """A run of three batches; copy it to change it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(resolve("tiny", [f"training.batches={STEP}"]), folder, say=lambda line: None)
    return folder


@pytest.fixture
def seqloom(capsys: pytest.CaptureFixture[str]) -> Seqloom:
    """Runs a command in this process."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = command([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def wrecks(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, each named after what is wrong with it."""
    home = tmp_path_factory.mktemp("wrecks")
    for name, breaks in WRECKS.items():
        shutil.copytree(trained, home / name)
        breaks(home / name)
    return home


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of texts and presets, none of which can be used."""
    home = tmp_path_factory.mktemp("shelf")
    for name, content in FILES.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(content)
    for name, columns in TABLES.items():
        parquet.write_table(pyarrow.table(columns), home / name)
    (home / "nothing").mkdir()
    (home / "folder.yaml").mkdir()
    return home


TABLES: dict[str, dict[str, list[Any]]] = {
    "ids.parquet": {"id": [1], "content": ["one"]},
    "number.parquet": {"text": [1]},
    "blank.parquet": {"text": [" "]},
}
FILES = {
    "pairs.tsv": b"one\t1\ntwo\nthree\t3\n",
    "broken.parquet": b"PAR1 and no more PAR1",
    "endless.json": b'{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, '
    b'"pre_tokenizer": null, "post_processor": null, "decoder": null, "model": {"type": "WordLevel", "vocab": {"a": 0},'
    b' "unk_token": "a"}}',
    "empty.txt": b"",
    "blank.txt": b" \n\n\t\n",
    "binary.txt": b"ab\0cd",
    "latin.txt": "café".encode("latin-1"),
    "utf16.txt": "cafe".encode("utf-16"),
    "letter.txt": b"a",
    "short.txt": b"abcdefghijkl",
    "broken.jsonl": b'{"text": "one"}\n{"text"\n',
    "other.jsonl": b'{"txt": "one"}\n',
    "list.jsonl": b"[1]\n",
    "number.jsonl": b'{"text": 1}\n',
    "blank.jsonl": b'{"text": " "}\n',
    "surrogate.jsonl": b'{"text": "\\ud800"}\n',
    "readme/README.md": b"no document",
    "mixed/good.txt": b"a good text",
    "mixed/bad.txt": b"\xff\xfe",
    "broken.yaml": b"model: [\n",
    "list.yaml": b"- 1\n",
    "empty.yaml": b"",
    "latin.yaml": b"model: \xe9\n",
    "typo.yaml": b"modl: {}\ndata: {source: stories}\n",
    "model_list.yaml": b"model: [1]\ndata: {source: stories}\n",
    "twice.yaml": b"model: {mixer: {kind: she}}\ndata: {source: stories}\ntraining:\n  lr: 1\n  lr: 2\n",
    "number.yaml": b"7\n",
    "key.yaml": b"model: {mixer: {kind: she}}\ndata: {source: stories}\n1: 2\n",
    "object.yaml": b"model: !!python/object/apply:os.system [exit]\n",
    "aliases.yaml": b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 10)) for n in range(98, 110)),
    "itself.yaml": b"model: &model {mixer: *model}\n",
    "deep.yaml": b"model: " + b"[" * 300 + b"]" * 300,
    "huge.yaml": b"#" * 70_000,
    "no_data.yaml": b"model: {mixer: {kind: she}}\n",
}


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the settings in a config.json, and puts them under their digest."""
    values = json.loads(path.read_text())
    del values["sha256"]
    change(values)
    path.write_bytes(seal_settings(values))


def _weights(run: Path) -> Path:
    return run / CHECKPOINT / "model.safetensors"


def _truncated(run: Path) -> None:
    os.truncate(_weights(run), 1000)


def _flipped(run: Path) -> None:
    content = bytearray(_weights(run).read_bytes())
    content[-7] ^= 4
    _weights(run).write_bytes(content)


def _newer_checkpoint(run: Path) -> None:
    manifest = run / CHECKPOINT / NAME
    body = json.loads(manifest.read_text())
    del body["sha256"]
    manifest.write_bytes(_seal_body({**body, "format": 2}))


WRECKS: dict[str, Callable[[Path], object]] = {
    "truncated": _truncated,
    "flipped": _flipped,
    "half_manifest": lambda run: os.truncate(run / CHECKPOINT / NAME, 20),
    "no_weights": lambda run: _weights(run).unlink(),
    "newer_checkpoint": _newer_checkpoint,
    "no_checkpoint": lambda run: shutil.rmtree(run / "checkpoints"),
    "other_config": lambda run: edit(run / "config.json", lambda said: said["model"].update(ffn=32)),
    "newer_config": lambda run: edit(run / "config.json", lambda said: said.update(format=2)),
    "config_typo": lambda run: edit(run / "config.json", lambda said: said["model"].update(dimm=32)),
    "no_format": lambda run: edit(run / "config.json", lambda said: said.pop("format")),
    "broken_config": lambda run: os.truncate(run / "config.json", 30),
    "binary_config": lambda run: (run / "config.json").write_bytes(b"\xff\xfe\0"),
    "list_config": lambda run: (run / "config.json").write_text("[1]"),
    "no_config": lambda run: (run / "config.json").unlink(),
    "no_tokenizer": lambda run: (run / "tokenizer.json").unlink(),
    "broken_tokenizer": lambda run: os.truncate(run / "tokenizer.json", 100),
    "foreign_tokenizer": lambda run: (run / "tokenizer.json").write_text('{"model": {"type": "BPE"}}'),
}
