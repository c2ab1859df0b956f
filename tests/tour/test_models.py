"""The three models: found by their first mixer, or trained here."""

import shutil
from pathlib import Path

import pytest

import seqloom
from seqloom.tour import models
from tests.tour.making import three


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, (kind, model) in enumerate(three().models.items()):
        seqloom.save(model, tmp_path / f"{number}-run" / kind, tokenizer=three().tokenizer)
    return tmp_path


def test_one_of_each_kind_is_found_in_any_folder(runs: Path) -> None:
    found = models.find_models([runs])
    assert tuple(found.models) == models.KINDS
    assert found.described == str(runs)
    ordered = models.find_models([runs / "2-run/gated_delta", runs / "0-run", runs / "1-run"])
    assert {kind: type(model.mixers[0]) for kind, model in ordered.models.items()} == models.MIXERS


def test_a_missing_kind_is_named_with_the_command_that_trains_it(runs: Path) -> None:
    with pytest.raises(ValueError, match="no run of he there; this trains all three: seqloom compare"):
        models.find_models([runs / "0-run", runs / "2-run"])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        models.find_models([runs / "none"])


def test_other_folders_are_passed_by_and_other_tokenizers_refused(runs: Path) -> None:
    (runs / "0-run/empty").mkdir()
    (runs / "0-run/empty/config.json").write_text("[")
    assert models.find_models([runs])
    from seqloom.data.tokenizer import Tokenizer

    shutil.rmtree(runs / "1-run")
    model = seqloom.decoder("he", vocab=700, dim=16, depth=1, context=8, position="none")
    seqloom.save(model, runs / "1-run", tokenizer=Tokenizer.of_bytes())
    with pytest.raises(ValueError, match="tokenizers differ"):
        models.find_models([runs])


def test_another_form_of_a_mixer_is_refused(runs: Path) -> None:
    shutil.rmtree(runs / "0-run")
    sparse = seqloom.decoder("attention", vocab=700, dim=16, depth=1, context=8, heads=1, pattern="strided")
    seqloom.save(sparse, runs / "0-run", tokenizer=three().tokenizer)
    with pytest.raises(ValueError, match="plain attention in its first layer"):
        models.find_models([runs])


def test_the_demo_is_used_where_it_has_run_and_nothing_comes_with_seqloom(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PACKED", tmp_path / "none")
    monkeypatch.setattr(models, "DEMO", runs)
    assert models.default_models().described == str(runs)
    monkeypatch.setattr(models, "PACKED", runs)
    assert models.default_models().described == "the models that come with seqloom"
    monkeypatch.setattr(models, "PACKED", runs / "0-run")
    monkeypatch.setattr(models, "DEMO", runs / "1-run")
    monkeypatch.setattr(models, "train_models", lambda: three())
    assert models.default_models() is three()


@pytest.mark.slow
def test_three_models_are_trained_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    smaller = [
        "data.source=stories:60:0",
        "data.vocab=300",
        "training.batches=2",
        "training.batch=2",
        "model.context=16",
    ]
    trained = models.train_models(tmp_path / "tour", smaller)
    assert tuple(trained.models) == models.KINDS
    again = models.train_models(tmp_path / "tour", smaller)
    assert again.tokenizer.json == trained.tokenizer.json
