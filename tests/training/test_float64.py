"""A run in float64: its weights, its losses, its scores, and everything that reads it afterwards."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

import seqloom
from seqloom.evaluation.scores import score
from seqloom.runs.model import load
from seqloom.training.memory import activations, weights
from seqloom.training.settings import resolve
from tests.at_once import first
from tests.training.running import mixer, newest, rows, tiny
from tests.training.stepping import decoder

DOUBLE = "training.precision=float64"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("double") / "run"
    tiny(made, DOUBLE)
    return made


@pytest.mark.slow
def test_everything_saved_is_float64(folder: Path) -> None:
    held = newest(folder).tensors
    assert {tensor.dtype for tensor in held["model"].values()} == {torch.float64}
    assert {tensor.dtype for name, tensor in held["optimizer"].items() if "exp_avg" in name} == {torch.float64}


@pytest.mark.slow
def test_its_losses_are_float64(folder: Path, tmp_path: Path) -> None:
    """Near those of float32, from the same first weights and batches, and with digits that float32 does not have."""
    tiny(tmp_path, "training.batches=9")
    for one, two in zip(rows(folder), rows(tmp_path), strict=True):
        name = "loss" if "loss" in one else "held_out"
        assert one[name] == pytest.approx(two[name], rel=1e-4)
        assert one[name] != two[name]
        assert torch.tensor(one[name], dtype=torch.float32).item() != one[name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(1, ["she", "attention", "retention", "mamba"]))
def test_float64_training_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    tiny(tmp_path / "whole", DOUBLE, mixer(kind))
    tiny(tmp_path / "cut", DOUBLE, mixer(kind), "training.batches=4")
    tiny(tmp_path / "cut", DOUBLE, mixer(kind), "training.batches=8")
    tiny(tmp_path / "cut", DOUBLE, mixer(kind))
    expected, actual = newest(tmp_path / "whole").tensors, newest(tmp_path / "cut").tensors
    for group, named in expected.items():
        assert named.keys() == actual[group].keys()
        assert all(tensor.equal(actual[group][name]) for name, tensor in named.items())


@pytest.mark.slow
def test_it_is_another_run_than_float32(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"training\.precision is \"float64\" there and \"float32\" here"):
        tiny(folder)


@pytest.mark.slow
def test_it_is_loaded_scored_and_written_with(folder: Path) -> None:
    outcome = tiny(folder, DOUBLE)  # it is done: nothing is trained
    model, run = load(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float64}
    actual = score(model, outcome.corpus.held_out)
    assert actual.loss == pytest.approx(newest(folder).meta["best"]["loss"], rel=1e-12)
    ids = torch.arange(1, 9)[None]
    expected = cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    assert expected.dtype == torch.float64
    text = "".join(seqloom.generate(seqloom.load(folder), "Once", max_tokens=5, seed=0))
    assert run.folder == folder
    assert text


@pytest.mark.slow
def test_a_model_saved_alone_comes_back(tmp_path: Path) -> None:
    model = decoder("she").double()
    seqloom.save(model, tmp_path / "alone")
    again = seqloom.load(tmp_path / "alone")
    for name, weight in model.state_dict().items():
        assert again.state_dict()[name].equal(weight), name
    with pytest.raises(ValueError, match="precision"):
        seqloom.save(decoder("she"), tmp_path / "alone")


def test_the_memory_that_it_needs() -> None:
    one, two = resolve("tiny"), resolve("tiny", [DOUBLE])
    ids = 8 * one.training.batch * (one.model.context + 1)
    assert activations(two.model, two.training) - ids == 2 * (activations(one.model, one.training) - ids)
    assert weights(one.model)[1] > 0
