"""Training with a store: batches with their own neighbors, runs that resume bit for bit, and stores that do not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import seqloom
from seqloom.core.progress import show_nothing
from seqloom.data.prepare import Corpus
from seqloom.evaluation.scores import widen_logits
from seqloom.retrieval import lookup
from seqloom.retrieval.building import build
from seqloom.retrieval.store import Store
from seqloom.training.neighbors import with_neighbors
from seqloom.training.objectives.neighbors import WithNeighbors
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.settings import resolve
from seqloom.training.train import train
from tests.training.running import newest, rows

SMALL = ("data.source=stories:9:0", "training.device=cpu", "training.batches=6", "training.save_every=3")
FROZEN = ("model.mixer.kind=gru", "model.position.kind=none", "training.batches=3")
HERE = ("model.kind=spalm", "model.k=3", "model.dropout=0.1", "model.tie=true", "model.position.kind=none")
CARRY = ("training.memory=carry", "model.mixer={kind: transformer_xl, heads: 2, memory: 5}", "training.through=2")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    found = prepare_run(resolve("tiny", [*SMALL, *FROZEN]))[1]
    assert found is not None
    return found


@pytest.fixture(scope="module")
def store(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Store:
    home = tmp_path_factory.mktemp("frozen")
    train(resolve("tiny", [*SMALL, *FROZEN]), home / "run", say=lambda line: None)
    model = seqloom.load(home / "run")
    return build(model, corpus.train, home / "store", source="stories", run=str(home / "run"), show=show_nothing)


def changes(store: Store, *further: str) -> list[str]:
    return [*SMALL, *HERE, f"model.store={store.folder}", *further]


def by_sorting(store: Store, position: int, k: int) -> set[int]:
    """The ids after all other keys that are no farther than the k nearest of them."""
    gaps = (store.keys - store.keys[position]).double().square().sum(1)
    gaps[position] = torch.inf
    near = gaps <= gaps.sort().values[k - 1] + 1e-4
    return set(store.values[near].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("further", [(), ("data.within_documents=true",), CARRY], ids=str)
def test_a_batch_has_the_neighbors_of_its_targets(further: tuple[str, ...], store: Store, corpus: Corpus) -> None:
    config, own = prepare_run(resolve("tiny", changes(store, *further)))
    learner = learner_of(config, own)
    assert isinstance(learner.objective, WithNeighbors)
    plain = resolve("tiny", [*SMALL, *FROZEN, *further])
    for step in (0, 1, 5):
        batch = learner.objective.batch(config.data.seed, step, learner.model)
        assert torch.equal(batch["ids"], learner_of(plain, corpus).objective.batch(0, step, learner.model)["ids"])
        assert batch["followed"].shape == (*batch["ids"][:, 1:].shape, 3)
        for row, ids in enumerate(batch["ids"].tolist()):
            at = [
                n for n in range(len(corpus.train) - len(ids) + 1) if corpus.train.ids[n : n + len(ids)].tolist() == ids
            ]
            wanted = [by_sorting(store, n + len(ids) - 1, 3) for n in at]
            assert any(set(batch["followed"][row, -1].tolist()) <= each for each in wanted)
            assert learner.objective.targets(batch) == batch["ids"][:, 1:].numel()


@pytest.mark.slow
def test_its_loss_is_of_the_neighbors_that_are_given(store: Store) -> None:
    config, corpus = prepare_run(resolve("tiny", changes(store)))
    learner = learner_of(config, corpus).eval()
    batch = learner.objective.batch(0, 0, learner.model)
    model: Any = learner.model
    logits, _ = model.forward_with_extras(batch["ids"][:, :-1], None, batch["followed"])
    wanted = cross_entropy(widen_logits(logits).flatten(0, 1), batch["ids"][:, 1:].flatten())
    torch.testing.assert_close(learner(batch, {}).losses["loss"], wanted, rtol=0, atol=0)
    other = learner({**batch, "followed": batch["followed"].flip(0)}, {}).losses["loss"]
    assert float((other - wanted).detach().abs()) > 1e-9


@pytest.mark.slow
def test_the_frozen_model_and_the_store_stay_as_they_are(store: Store, tmp_path: Path) -> None:
    keys, values = store.keys.clone(), store.values.clone()
    before = {name: tensor.clone() for name, tensor in seqloom.load(store.config.run).state_dict().items()}
    train(resolve("tiny", changes(store)), tmp_path / "run", say=lambda line: None)
    model: Any = seqloom.load(tmp_path / "run")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.lookup._model.state_dict().items())
    assert torch.equal(store.keys, keys)
    assert torch.equal(store.values, values)
    assert newest(tmp_path / "run").tensors["model"].keys() == model.state_dict().keys()
    assert float(model.gate.weight.detach().abs().max()) > 0
    assert "held_out" in rows(tmp_path / "run")[-1]


@pytest.mark.slow
@pytest.mark.parametrize("further", [(), CARRY, ("training.accumulate=2",)], ids=str)
def test_a_run_that_stopped_goes_on_bit_for_bit(further: tuple[str, ...], store: Store, tmp_path: Path) -> None:
    settings = changes(store, *further)
    for folder, batches in (("whole", 6), ("parts", 4), ("parts", 6)):
        train(resolve("tiny", [*settings, f"training.batches={batches}"]), tmp_path / folder, say=lambda line: None)
    whole, parts = newest(tmp_path / "whole").tensors, newest(tmp_path / "parts").tensors
    assert ("carried" in whole) == (further == CARRY)
    for group, tensors in whole.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, parts[group][name]), name
    losses = [[row["loss"] for row in rows(tmp_path / name) if "loss" in row] for name in ("whole", "parts")]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_another_store_than_it_was_trained_with(store: Store, corpus: Corpus, tmp_path: Path) -> None:
    model = seqloom.load(store.config.run)
    settings = [*SMALL, *HERE, f"model.store={tmp_path / 'store'}"]
    build(model, corpus.train, tmp_path / "store", source="stories", run=store.config.run, show=show_nothing)
    train(resolve("tiny", settings), tmp_path / "run", say=lambda line: None)
    (tmp_path / "store").rename(tmp_path / "before")
    build(model, corpus.train, tmp_path / "store", source="stories", run=store.config.run, half=True, show=show_nothing)
    with pytest.raises(ValueError, match="is another store than the model was trained with: put that one back"):
        seqloom.load(tmp_path / "run")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "tokenizer": (("data.vocab=280",), "which has another tokenizer: add --set data.tokenizer="),
    "side": (
        ("data.held_out=0.3", "data.tokenizer={run}/tokenizer.json", "data.vocab=null"),
        "of another text than the",
    ),
    "k": (("model.k=20000",), "k is 20,000, and .* holds [0-9,]+ keys besides a token's own: choose a smaller k"),
    "packed": (("data.packed=true",), "model.kind=spalm reads no packed documents: leave data.packed out"),
    "none": (("model.store=''",), "looks up in a store: set model.store to one of `seqloom knn build`"),
    "objective": (("training.objective.kind=exits",), "exits does not fit model.kind=spalm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_stores_that_do_not_fit(name: str, store: Store, tmp_path: Path) -> None:
    further, error = REFUSED[name]
    settings = [change.format(run=store.config.run) if "{run}" in change else change for change in further]
    with pytest.raises(ValueError, match=error) as caught:
        train(resolve("tiny", changes(store, *settings)), tmp_path / "run", say=lambda line: None)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("carried", [False, True])
def test_a_frozen_model_that_reads_less_far(
    carried: bool, store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = seqloom.decoder("gru", vocab=300, dim=8, depth=1, context=8)  # of learned positions
    monkeypatch.setattr("seqloom.training.neighbors.load_store", lambda folder: (frozen, store))
    config = resolve("tiny", changes(store, *(CARRY if carried else ())))
    error = "and with training.memory=carry a model reads on" if carried else "and the run's context is 16"
    with pytest.raises(ValueError, match=f"reads at most 8 tokens, {error}: choose a store of another model"):
        with_neighbors(config, corpus)


def test_what_it_reads_is_what_it_was_trained_on(store: Store, corpus: Corpus) -> None:
    """The lookup finds, for the windows that the store was built of, the entry itself first: others come after it."""
    model, opened = lookup.load_store(store.folder)
    window = torch.from_numpy(corpus.train.ids[: store.config.context].astype(np.int64))
    inputs = torch.cat([torch.tensor([corpus.train.eos]), window[:-1]])[None]
    found = lookup.StoreLookup(model, opened, 8).read(inputs)[0]
    assert all(int(target) in row for target, row in zip(window, found.tolist(), strict=True))
