"""kNN-LM: the store of a text, its distribution by hand, tuning, scores and texts, and incomplete stores."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.core.progress import show_nothing
from seqloom.data.tokens import Tokens
from seqloom.evaluation.reading import remembering, score_reading
from seqloom.evaluation.scores import score
from seqloom.evaluation.tuning import tune
from seqloom.generation.draws import tokens as drawn
from seqloom.generation.sample import Sampling
from seqloom.retrieval import building
from seqloom.retrieval.building import build
from seqloom.retrieval.keys import Keys
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.store import Mix, Store, StoreConfig, open_store

VOCAB, CONTEXT = 13, 6


def model(kind: str = "attention", seed: int = 0, **settings: Any) -> Model:
    torch.manual_seed(seed)
    own = {"heads": 2} if kind == "attention" else {}
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.5, "dropout": 0.0}
    return seqloom.decoder(kind, **sizes, **own, **settings).eval()


def text(seed: int = 0, sizes: tuple[int, ...] = (20, 3, 11)) -> Tokens:
    draw = np.random.default_rng(seed)
    documents = [np.append(draw.integers(1, VOCAB, size), 0) for size in sizes]
    starts = np.cumsum([0, *(len(document) for document in documents[:-1])])
    return Tokens(np.concatenate(documents).astype("<u2"), starts, np.array(sizes, np.int64))


def distinct() -> Tokens:
    """One document whose windows begin with different tokens, so that no two keys are equal."""
    of = text(2, (35,))
    of.ids[CONTEXT - 1 : -1 : CONTEXT] = [3, 1, 7, 5, 9]
    return of


def built(reader: Model, folder: Path, of: Tokens | None = None, **settings: Any) -> Store:
    return build(reader, text() if of is None else of, folder, source="text", show=show_nothing, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_store_has_the_key_and_the_next_token_of_every_token(batch: int, tmp_path: Path) -> None:
    reader, of = model(), text()
    store = built(reader, tmp_path / "store", batch=batch)
    assert store.values.tolist() == of.ids.tolist()
    keys, number = Keys(reader), 0
    with torch.no_grad():
        for start, end in zip(of.starts, of.ends, strict=True):
            ids = np.concatenate([[0], of.ids[start : end - 1]])
            for first in range(0, len(ids), CONTEXT):
                window = torch.from_numpy(ids[first : first + CONTEXT].astype(np.int64))[None]
                wanted = keys.read(reader, window)[0]
                own = store.keys[number : number + len(wanted)]
                torch.testing.assert_close(own, wanted, rtol=0, atol=1e-5)
                number += len(wanted)
    assert number == len(store.keys)


@pytest.mark.slow
def test_half_precision_takes_half_the_disk(tmp_path: Path) -> None:
    whole, half = built(model(), tmp_path / "whole"), built(model(), tmp_path / "half", half=True)
    assert half.keys.nbytes * 2 == whole.keys.nbytes
    torch.testing.assert_close(half.keys.float(), whole.keys, rtol=1e-3, atol=1e-3)


class Stopped(Exception):
    """In place of a power cut."""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3, 5])
@pytest.mark.parametrize("batch", [1, 2])
def test_it_resumes_where_it_was_stopped(
    after: int, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = model()
    whole = built(reader, tmp_path / "whole")

    @contextmanager
    def stopping(*_: Any, **__: Any) -> Iterator[Callable[..., None]]:
        calls = iter(range(after))

        def advance(*_: Any, **__: Any) -> None:
            if next(calls, None) is None:
                raise Stopped

        yield advance

    monkeypatch.setattr(building, "RECORD_SECONDS", 0.0)
    reads: list[int] = []
    read = Keys.read
    monkeypatch.setattr(Keys, "read", lambda *given: (reads.append(len(given[2])), read(*given))[1])
    with pytest.raises(Stopped):
        build(reader, text(), tmp_path / "store", source="text", batch=1, show=stopping)
    with pytest.raises(ValueError, match="is half built: run the same `seqloom knn build` again"):
        open_store(tmp_path / "store", reader)
    with (tmp_path / "store/entries/keys.bin").open("ab") as file:
        file.write(b"written, and not noted")
    reads.clear()
    store = built(reader, tmp_path / "store", batch=batch)
    assert sum(reads) == 7 - after - 1, "windows were read again"
    torch.testing.assert_close(store.keys, whole.keys, rtol=0, atol=1e-5)  # products of other sizes round otherwise
    assert torch.equal(store.values, whole.values)
    reads.clear()
    assert torch.equal(built(reader, tmp_path / "store").keys, store.keys)
    assert not reads, "a whole store is built again"


def by_hand(store: Store, query: Tensor, mix: Mix) -> np.ndarray:
    """p_kNN of every token, from the definition."""
    distances = ((store.keys.double() - query.double()) ** 2).sum(1).numpy()
    p = np.zeros(VOCAB)
    nearest = np.argsort(distances)[: mix.k]
    for number in nearest:
        p[int(store.values[number])] += math.exp(-distances[number] / mix.temperature)
    return p / p.sum()


@pytest.mark.slow
@pytest.mark.parametrize("mix", [Mix(k=4, weight=0.3, temperature=2.0), Mix(k=35, weight=0.9, temperature=10.0)])
@pytest.mark.parametrize("kind", ["attention", "mamba"])
def test_the_distribution_by_hand(kind: str, mix: Mix, tmp_path: Path) -> None:
    reader = model(kind, position="none")
    store = built(reader, tmp_path / "store", distinct())
    held = text(1, (CONTEXT - 1,))
    inputs = torch.tensor([[0, *held.ids[:-1].tolist()]])
    keys = Keys(reader)
    with torch.no_grad():
        own = reader(inputs).softmax(2)[0].double().numpy()
    rows = [
        mix.weight * by_hand(store, key, mix) + (1 - mix.weight) * p for key, p in zip(keys.latest[0], own, strict=True)
    ]
    keys.close()
    wanted = -np.mean([math.log(row[id]) for row, id in zip(rows, held.ids.tolist(), strict=True)])
    with Neighbors(reader, store, mix) as neighbors:
        assert score(reader, held, neighbors=neighbors).loss == pytest.approx(wanted, rel=1e-5)
        assert score_reading(reader, held, neighbors=neighbors).loss == pytest.approx(wanted, rel=1e-5)
        first = next(drawn(reader, inputs, max_tokens=1, neighbors=neighbors))
        np.testing.assert_allclose(first.logits.exp()[0], rows[-1], rtol=1e-4)
        stream = list(drawn(reader, inputs[:, :3], max_tokens=2, mode="stream", neighbors=neighbors))
        assert stream[1].logits.exp().sum() == pytest.approx(1.0)
    assert score(reader, held).loss == pytest.approx(-np.mean(np.log(own[range(CONTEXT), held.ids])), rel=1e-5)


@pytest.mark.slow
def test_a_text_that_was_read_is_predicted_better_and_written_again(tmp_path: Path) -> None:
    reader, of = model(), text()
    store = built(reader, tmp_path / "store")
    with Neighbors(reader, store, Mix(k=1, weight=0.99, temperature=1.0)) as neighbors:
        first, *later = score(reader, of, neighbors=neighbors).by_position
        assert max(later) < 0.02 < min(first, *score(reader, of).by_position)  # first tokens have all read <eos> alone
        document = of.ids[: of.ends[0]].tolist()
        greedy = {"max_tokens": 4, "sampling": Sampling(temperature=0.0)}
        rows = drawn(reader, torch.tensor([[0, document[0]]]), **greedy, neighbors=neighbors)
        ids = [int(row.ids[0]) for row in rows]
        assert ids == document[1:5]


@pytest.mark.slow
def test_tuning_is_the_score_of_each(tmp_path: Path) -> None:
    reader, held = model(), text(1)
    store = built(reader, tmp_path / "store", distinct())
    ks, weights, temperatures = [1, 7, 36], [0.1, 0.6], [1.0, 20.0]
    result = tune(reader, store, held, ks=ks, weights=weights, temperatures=temperatures, batch=2, show=show_nothing)
    assert result.plain == pytest.approx(score(reader, held).loss, rel=1e-6)
    assert len(result.losses) == 12
    for mix, loss in result.losses.items():
        with Neighbors(reader, store, mix) as neighbors:
            assert loss == pytest.approx(score(reader, held, neighbors=neighbors).loss, rel=1e-5)
    assert result.losses[result.best] == min(result.losses.values())
    store.write_tuning(result.best, {"plain": result.plain})
    assert Neighbors(reader, store).mix == result.best


def broken(folder: Path, how: str) -> None:
    """Breaks a store in one way."""
    entries = folder / "entries"
    match how:
        case "cut":
            with (entries / "keys.bin").open("rb+") as file:
                file.truncate(100)
        case "altered":
            data = bytearray((entries / "values.bin").read_bytes())
            data[5] ^= 1
            (entries / "values.bin").write_bytes(data)
        case "half built":
            (entries / "manifest.json").unlink()
        case "other sizes":
            config = json.loads((folder / "store.json").read_text())
            (folder / "store.json").write_text(json.dumps({**config, "dim": 4}))
        case "tuned":
            (folder / "tuned.json").write_text("{}")
        case "nothing":
            (folder / "store.json").unlink()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("cut", "keys.bin is truncated: 100 of"),
        ("altered", "values.bin is altered"),
        ("half built", "is half built"),
        ("other sizes", "store.json is altered"),
        ("tuned", "tuned.json is altered"),
        ("nothing", "is no store: it has no store.json"),
    ],
)
def test_a_store_that_is_not_whole(how: str, words: str, tmp_path: Path) -> None:
    reader = model()
    built(reader, tmp_path / "store")
    broken(tmp_path / "store", how)
    with pytest.raises((ValueError, FileNotFoundError), match=words) as caught:
        Neighbors(reader, open_store(tmp_path / "store", reader))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_store_of_another_model_or_text(tmp_path: Path) -> None:
    store = built(model(), tmp_path / "store")
    other = model(seed=1)
    with pytest.raises(ValueError, match="is a store of another model, or of other weights"):
        open_store(tmp_path / "store", other)
    with pytest.raises(ValueError, match="holds a store of another model, or of other weights: choose another --out"):
        built(other, tmp_path / "store")
    with pytest.raises(ValueError, match="holds a store of another text"):
        built(model(), tmp_path / "store", text(5))
    with pytest.raises(ValueError, match=r"of other settings \(half is false there and true here\): choose another"):
        built(model(), tmp_path / "store", half=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").write_text("Dear")
    with pytest.raises(ValueError, match="holds something else than a store"):
        built(model(), tmp_path / "other")
    with pytest.raises(ValueError, match=r"k is 100, and .* holds 37 keys: choose a smaller k"):
        Neighbors(model(), store, Mix(k=100))
    assert store.mix().k == 37, "the default is cut to what there is"


def test_probes_are_only_for_lists(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="probes=3 needs lists"):
        built(model(), tmp_path / "store", probes=3)
    assert not (tmp_path / "store").exists()
    config = built(model(), tmp_path / "store").config.model_dump()
    old = StoreConfig(**{**config, "probes": 3})
    assert old.digest == StoreConfig(**config).digest, "a store without lists that was built with --probes"
    assert StoreConfig(**{**config, "lists": 2, "probes": 3}).probes == 3


@pytest.mark.slow
def test_a_store_with_lists(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    reader, held = model(), text(1)
    store = built(reader, tmp_path / "lists", distinct(), lists=4, probes=4)
    mix = Mix(k=5, weight=0.5, temperature=2.0)
    losses = []
    for search in (None, "exact", "flat"):
        with Neighbors(reader, store, mix, search) as neighbors:
            losses.append(score(reader, held, neighbors=neighbors).loss)
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    with pytest.raises(ValueError, match="99 lists for 37 keys"):
        built(reader, tmp_path / "many", lists=99)


def test_neighbors_of_a_model_with_a_longer_memory(tmp_path: Path) -> None:
    reader = model("transformer_xl", heads=2, position="none")
    store, longer, of = built(reader, tmp_path / "store"), remembering(reader, 9), text(3)
    with Neighbors(reader, store, Mix(k=4, weight=0.3)) as neighbors:
        neighbors.attach(longer)
        mixed = score_reading(longer, of, neighbors=neighbors)
    assert mixed.loss != score_reading(longer, of).loss
    with Neighbors(longer, store, Mix(k=4, weight=0.3)) as neighbors:
        assert mixed == score_reading(longer, of, neighbors=neighbors)
