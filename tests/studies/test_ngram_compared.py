"""Models that count next to models of layers in one comparison."""

from pathlib import Path

import pytest

import seqloom
from seqloom.models.kinds import model_config
from seqloom.report import page
from seqloom.studies.candidate import parse_candidate, preset_of
from seqloom.training.settings import resolve
from tests.studies.comparing import compare


def test_a_recipe_whose_model_counts_takes_no_gradients_into_a_comparison() -> None:
    ngram = parse_candidate("ngram/kneser_ney:order=3")
    assert ngram.name == "ngram-kneser_ney-order=3"
    changes = ["training.lr=0.1", "model.dim=8", "model.context=16", "training.batches=7"]
    assert ngram.fitting(changes) == changes[2:]
    assert parse_candidate("he").fitting(changes) == changes
    assert preset_of(["ngram/kneser_ney", "he", "llama/small"]) == "llama/small"
    config = resolve("llama/small", ["model=ngram/kneser_ney"])
    assert config.model == model_config({"kind": "ngram", "order": 5, "context": 128, "vocab": 5000})
    assert (config.training.batch, config.training.clip, config.data.disjoint) == (16, None, True)


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_it_is_compared_with_models_of_layers(tmp_path: Path) -> None:
    contenders = [parse_candidate(text) for text in ("ngram/kneser_ney", "he")]
    small = ["data.source=stories:30:0", "training.batches=6", "training.save_every=3", "model.dim=16"]
    comparison = compare(contenders, "tiny", small, tmp_path)
    rows = {each.name: each for each in comparison.contenders}
    ngram, he = rows["ngram-kneser_ney"], rows["he"]
    assert (ngram.kind, ngram.views, he.kind) == ("ngram", [], "he")
    assert ngram.row["table bytes"] == sum(table.nbytes for table in seqloom.load(tmp_path / ngram.runs[0]).buffers())
    assert (ngram.row["parameters"], ngram.row["state bytes"]) == (0, 4 * 8)
    assert ngram.row["held-out loss"] < he.row["held-out loss"]
    assert ngram.samples
    assert "ngram-kneser_ney" in page.write(tmp_path).read_text()
