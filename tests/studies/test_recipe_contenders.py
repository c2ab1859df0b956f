"""Recipes as contenders: whole models under the data, context, batches and schedule of the first one named."""

from pathlib import Path

import pytest

import seqloom
from seqloom.analysis.match import quantity
from seqloom.cli.checked import require_contenders
from seqloom.runs.layout import find_run
from seqloom.studies.candidate import Candidate, parse_candidate, preset_of
from seqloom.studies.compare import Match
from tests.studies.comparing import SMALL, compare

TINY = [
    *SMALL,
    *("model.dim=16", "model.depth=2", "model.context=16", "data.vocab=280"),
    *("training.batch=4", "training.schedule.warmup=2"),
]


def test_a_recipe_is_a_contender() -> None:
    assert parse_candidate("llama/small") == Candidate("llama-small", ("model=llama/small",), kind="llama/small")
    result = parse_candidate("llama/small:heads=2,kv_heads=1")
    assert result.name == "llama-small-heads=2-kv_heads=1"
    assert result.changes == ("model=llama/small", "model.mixer.heads=2", "model.mixer.kv_heads=1")
    assert parse_candidate("their/own.yaml") == Candidate("own", ("model=their/own.yaml",), kind="their/own.yaml")


@pytest.mark.parametrize(
    ("texts", "preset"),
    [
        (["he", "llama/small", "mamba/small"], "llama/small"),
        (["mamba/small:state_dim=4", "llama/small"], "mamba/small"),
        (["attention:heads=2", "he"], "paper/small"),
        ([], "paper/small"),
    ],
)
def test_the_first_recipe_named_is_the_preset(texts: list[str], preset: str) -> None:
    assert preset_of(texts) == preset


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama/smal", "did you mean 'llama/small'"),
        ("mamba/small:heads=2", "heads"),
        ("llama/small:kv_heads=0", "kv_"),
    ],
)
def test_a_mistake_is_reported_before_torch_is_loaded(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        require_contenders([text], "llama/small")


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_models_of_recipes_are_trained_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contenders = [parse_candidate(text) for text in ("llama/small", "mamba/small", "he")]
    compare(contenders, "llama/small", TINY, tmp_path, match=Match("params", contenders[0]))
    assert "he: model.position=rotary of the recipe is left out: he has no place for it" in capsys.readouterr().err
    runs = {each.name: find_run(tmp_path / each.name / "seed-0").settings for each in contenders}
    first = runs["llama-small"]
    assert all((run["training"], run["data"]) == (first["training"], first["data"]) for run in runs.values())
    models = {name: seqloom.load(tmp_path / name / "seed-0").config for name in runs}
    assert {(model.context, model.vocab) for model in models.values()} == {(16, models["he"].vocab)}
    llama, mamba, he = models.values()
    assert (mamba.ffn.kind, mamba.tie, mamba.pattern[0].kind) == ("none", True, "mamba")
    assert he == llama.model_copy(update={"mixer": he.mixer, "position": he.position})
    assert (he.pattern[0].kind, he.position.kind) == ("he", "none")
    for name in ("mamba-small", "he"):
        sized = seqloom.load(tmp_path / f"llama-small.params-of-{name}" / "seed-0").config
        assert (sized.norm, sized.ffn.gated, sized.position.kind) == ("rms", True, "rotary")
        assert quantity(sized, "params") == pytest.approx(quantity(models[name], "params"), rel=0.01)
