"""A store from elsewhere: it writes to no other file, and numbers that no build wrote are one error in one line."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqloom.core.model import Model
from seqloom.core.progress import show_nothing
from seqloom.evaluation.scores import score
from seqloom.retrieval.followed import following_tokens
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.store import Mix, open_store
from seqloom.runs import manifest
from seqloom.runs.layout import seal_settings
from seqloom.runs.manifest import Damaged
from tests.retrieval.test_knn import VOCAB, built, model, text

HALF = ("manifest.json", "values.bin", "keys.bin")


def half_built(folder: Path) -> Model:
    """A store without its entries, as it may be received; returns its model."""
    reader = model()
    built(reader, folder)
    for name in HALF:
        (folder / "entries" / name).unlink()
    return reader


@pytest.mark.parametrize("name", ["keys.bin", "values.bin"])
def test_a_received_store_writes_to_no_other_file(tmp_path: Path, name: str) -> None:
    reader = half_built(tmp_path / "store")
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear")
    (tmp_path / "store/entries" / name).symlink_to(letter)
    with pytest.raises(ValueError, match=f"{name} is a link, not a regular file"):
        built(reader, tmp_path / "store")
    (tmp_path / "store/entries" / name).unlink()
    os.mkfifo(tmp_path / "store/entries" / name)
    with pytest.raises(ValueError, match=f"{name} is a FIFO, not a regular file"):
        built(reader, tmp_path / "store")
    assert letter.read_text() == "Dear"


@pytest.mark.parametrize("name", ["entries", "followed-3"])
def test_a_received_store_writes_to_no_other_folder(tmp_path: Path, name: str) -> None:
    reader = half_built(tmp_path / "store")
    if name != "entries":
        built(reader, tmp_path / "store")
    else:
        (tmp_path / "store/entries").rmdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "store" / name).symlink_to(tmp_path / "mine")
    with pytest.raises(ValueError, match=f"store/{name} is a link"):
        following_tokens(built(reader, tmp_path / "store"), 3, show_nothing)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.slow
def test_inverted_lists_are_not_written_through_a_link(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    reader = model()
    built(reader, tmp_path / "store", lists=2)
    for path in (tmp_path / "store/entries").iterdir():
        path.unlink()
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear")
    (tmp_path / "store/entries/lists.faiss").symlink_to(letter)
    assert built(reader, tmp_path / "store", lists=2).lists == tmp_path / "store/entries/lists.faiss"
    assert letter.read_text() == "Dear"


def resealed(folder: Path, name: str, change: Callable[[np.ndarray], object]) -> None:
    """Changes the numbers of a file of entries, under a manifest that is valid."""
    numbers = np.fromfile(folder / name, np.int32 if name == "values.bin" else np.float32)
    change(numbers)
    (folder / name).write_bytes(numbers.tobytes())
    (folder / manifest.NAME).unlink()
    manifest.seal(folder)


@pytest.mark.parametrize("token", [-1, VOCAB, 2**31 - 1, -(2**31)])
def test_tokens_that_the_model_does_not_have(tmp_path: Path, token: int) -> None:
    reader = model()
    built(reader, tmp_path / "store")
    resealed(tmp_path / "store/entries", "values.bin", lambda values: values.put(7, token))
    with pytest.raises(Damaged, match=r"values\.bin has tokens that are not in the vocabulary of 13: build it again"):
        open_store(tmp_path / "store", reader)


@pytest.mark.slow
@pytest.mark.parametrize("key", [np.nan, np.inf])
def test_keys_that_are_not_finite_are_never_near(tmp_path: Path, key: float) -> None:
    reader, held = model(), text(1)
    built(reader, tmp_path / "store")
    without = score(reader, held).loss
    resealed(tmp_path / "store/entries", "keys.bin", lambda keys: keys.fill(key))
    with Neighbors(reader, open_store(tmp_path / "store", reader), Mix(k=5)) as neighbors:
        assert score(reader, held, neighbors=neighbors).loss == pytest.approx(without, rel=1e-6)


@pytest.mark.parametrize("temperature", [5e-324, 1e308])
def test_no_temperature_makes_a_loss_that_is_no_number(tmp_path: Path, temperature: float) -> None:
    reader = model()
    store = built(reader, tmp_path / "store")
    with Neighbors(reader, store, Mix(k=5, temperature=temperature)) as neighbors:
        assert math.isfinite(score(reader, text(1), neighbors=neighbors).loss)


SEALED = {
    "no mix": ({}, "tuned.json: "),
    "a mix that is a list": ({"mix": [1]}, "tuned.json: "),
    "a mix that is nothing": ({"mix": None}, "tuned.json: "),
    "k as a word": ({"mix": {"k": "8"}}, "tuned.json: k: "),
    "more neighbors than keys": ({"mix": {"k": 10**30}}, "holds 37 keys: choose a smaller k"),
    "a share above 1": ({"mix": {"weight": 2.0}}, "tuned.json: weight: "),
}


@pytest.mark.parametrize("how", SEALED)
def test_a_choice_that_tuning_did_not_write(how: str, tmp_path: Path) -> None:
    store = built(model(), tmp_path / "store")
    content, words = SEALED[how]
    (tmp_path / "store/tuned.json").write_bytes(seal_settings(content))
    with pytest.raises(ValueError, match=words) as raised:
        store.mix()
    assert "\n" not in str(raised.value)


STORES = {
    "no model": (lambda config: config.pop("model"), "store.json: setting 'model' is missing"),
    "keys of another width": (lambda config: config.update(dim=4), "of another model, or of other weights"),
    "a negative size": (lambda config: config.update(entries=-1), "store.json: entries: "),
    "entries beyond all sizes": (lambda config: config.update(entries=10**30), "store.json describes 320"),
    "lists that are not there": (lambda config: config.update(lists=4), "lists.faiss is missing"),
}


@pytest.mark.parametrize("how", STORES)
def test_settings_that_no_build_wrote(how: str, tmp_path: Path) -> None:
    reader = model()
    built(reader, tmp_path / "store")
    change, words = STORES[how]
    path = tmp_path / "store/store.json"
    config = json.loads(path.read_text())
    del config["sha256"]
    change(config)
    path.write_bytes(seal_settings(config))
    with pytest.raises(ValueError, match=words) as raised:
        open_store(tmp_path / "store", reader)
    assert "\n" not in str(raised.value)


RECORDS: dict[str, object] = {
    "not sealed": {"parts": 1, "entries": 6},
    "nothing": b"",
    "a list": b"[]",
    "no numbers": seal_settings({"parts": "one", "entries": None}),
    "negative": seal_settings({"parts": -1, "entries": -6}),
    "too few tokens": seal_settings({"parts": 2, "entries": 3}),
    "too many tokens": seal_settings({"parts": 1, "entries": 10**30}),
    "too many windows": seal_settings({"parts": 10**30, "entries": 37}),
    "other names": seal_settings({"windows": 1, "entries": 6}),
}


@pytest.mark.parametrize("how", RECORDS)
def test_a_record_that_no_build_wrote(how: str, tmp_path: Path) -> None:
    reader = half_built(tmp_path / "store")
    record = RECORDS[how]
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    (tmp_path / "store/progress.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"progress\.json") as raised:
        built(reader, tmp_path / "store")
    assert "\n" not in str(raised.value)
    (tmp_path / "store/progress.json").unlink()
    assert built(reader, tmp_path / "store").config.entries == 37


@pytest.mark.slow
def test_inverted_lists_that_are_none(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    reader = model()
    store = built(reader, tmp_path / "store", lists=2)
    assert store.lists is not None
    foreign = {
        "cannot be read": b"",
        "lists.faiss cannot be read": store.lists.read_bytes()[:200],
        "holds no inverted lists": faiss.serialize_index(faiss.IndexFlatL2(8)).tobytes(),
    }
    for words, content in foreign.items():
        store.lists.write_bytes(content)
        manifest_path = tmp_path / "store/entries" / manifest.NAME
        manifest_path.unlink()
        manifest.seal(tmp_path / "store/entries")
        with pytest.raises(Damaged, match=words) as raised:
            Neighbors(reader, open_store(tmp_path / "store", reader))
        assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_inverted_lists_that_name_other_keys(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    reader = model()
    store = built(reader, tmp_path / "store", lists=2)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(8), 8, 2)
    index.train(store.keys.numpy())
    index.add_with_ids(store.keys.numpy(), np.arange(37) + 10**6)
    faiss.write_index(index, str(store.lists))
    with Neighbors(reader, store, Mix(k=3)) as neighbors, pytest.raises(Damaged, match="a key beyond the 37"):
        score(reader, text(1), neighbors=neighbors)
