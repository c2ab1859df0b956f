"""Early exits on the command line: what `seqloom study exits`, `thresholds` and `calibrate` make and refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

import seqloom as face
from tests.cli.conftest import Seqloom


@pytest.mark.slow
def test_learned_exits(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    """A classifier is trained, and `generate` and `calibrate` take its folder as a measure."""
    tokenizer = face.load(trained).tokenizer
    deep = face.decoder("he", vocab=tokenizer.vocab, dim=8, depth=3, context=24, ffn=16)
    run = face.save(deep, tmp_path / "deep", tokenizer=tokenizer)
    learn = ("study", "exits", run, "--data", "stories:20", "--batches", 5, "--batch", 2)
    answer = seqloom(*learn, "--out", tmp_path / "exits")
    assert answer.code == 0, answer.err
    assert f"use it by --exit-by {tmp_path / 'exits'}" in answer.out
    printed = json.loads(seqloom(*learn, "--out", tmp_path / "again", "--json").out)
    assert [row["by"] for row in printed["judged"]][:2] == ["all layers", "--exit 0.5"]
    assert seqloom(*learn, "--out", tmp_path / "exits").code == 2
    by = ("--exit-by", tmp_path / "exits")
    text = seqloom("generate", run, "Once", "--max-tokens", 5, "--exit", 0, *by)
    assert (text.code, " of 3 layers on average over 4 tokens" in text.err) == (0, True)
    own = seqloom("generate", run, "Once", "--max-tokens", 5, *by)
    half = seqloom("generate", run, "Once", "--max-tokens", 5, "--exit", 0.5, *by)
    assert (own.code, own.out.splitlines()[:1]) == (0, half.out.splitlines()[:1]), own.err
    ask = ("study", "calibrate", run, "--data", "stories:5", "--longest", 6, "--thresholds", "1,0.5")
    assert seqloom(*ask, "--delta", 0.9, "--epsilon", 0.5, *by).code == 0
    for other in (("--exit-by", tmp_path), ("--exit-by", "nowhere")):
        refused = seqloom("generate", run, "Once", "--exit", 0.5, *other)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert "is neither a measure nor a folder of `seqloom study exits`" in refused.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kind", "sequence", "--width", 2), "--width is for --kind multinomial or geometric, not sequence"),
        (("--penalty", 2), "--penalty is for --kind sequence, multinomial or geometric, not learned"),
        (("--oracle", "correctness"), "--oracle is for --kind sequence, multinomial or geometric, not learned"),
        (("--kind", "multinomal", "--width", 2), "did you mean 'multinomial'?"),
    ],
    ids=str,
)
def test_options_of_other_classifiers(
    options: tuple[object, ...], words: str, seqloom: Seqloom, trained: Path, tmp_path: Path
) -> None:
    tokenizer = face.load(trained).tokenizer
    deep = face.decoder("he", vocab=tokenizer.vocab, dim=8, depth=3, context=24, ffn=16)
    run = face.save(deep, tmp_path / "deep", tokenizer=tokenizer)
    answer = seqloom("study", "exits", run, "--data", "stories:3", "--out", tmp_path / "exits", *options)
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequence", "multinomial", "geometric"])
def test_chosen_layers(kind: str, seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    """Depth-Adaptive's classifiers need no threshold, and take the settings that are theirs."""
    tokenizer = face.load(trained).tokenizer
    deep = face.decoder("he", vocab=tokenizer.vocab, dim=8, depth=3, context=24, ffn=16)
    run = face.save(deep, tmp_path / "deep", tokenizer=tokenizer)
    learn = ("study", "exits", run, "--data", "stories:20", "--batches", 5, "--batch", 2, "--kind", kind)
    answer = seqloom(*learn, "--out", tmp_path / "exits", "--oracle", "correctness", "--penalty", 0.5)
    assert answer.code == 0, answer.err
    assert "the oracle" in answer.out
    by = ("--exit-by", tmp_path / "exits")
    text = seqloom("generate", run, "Once", "--max-tokens", 5, *by)
    assert (text.code, " of 3 layers on average over 4 tokens" in text.err) == (0, True), text.err
    late = seqloom("generate", run, "Once", "--max-tokens", 5, *by, "--exit-from", 3)
    assert late.err.startswith("3.00 of 3 layers")
    far = ("generate", run, "Once", *by, "--exit-from", 4)
    wrong: list[tuple[Any, str]] = [
        (far, "exits after layer 4 and later lie beyond the model's depth of 3"),
    ]
    search = ("study", "thresholds", run, *by, "--data", "stories:20", "--grid", "0.4,1")
    if kind == "geometric":
        result = seqloom(*search, "--delta", 0.9)
        assert "the best of 4 combinations, 0.4, 0.4, is stored in" in result.out, result.err
        assert seqloom("generate", run, "Once", "--max-tokens", 5, *by).err.startswith("1.00 of 3 layers")
        assert json.loads(seqloom(*search, "--json").out)["combinations"] == 4
        wrong.append(((*search, "--delta", 0), "delta lies between 0 and 1"))
        wrong.append(((*search, "--grid", "0.5,x"), "--grid must be a list of numbers"))
    else:
        wrong.append((search, f"{kind} chooses the layer itself, without thresholds"))
    if kind != "geometric":
        wrong.append((("generate", run, "Once", *by, "--exit", 0.5), f"{kind} chooses the layer itself"))
        wrong.append((("study", "calibrate", run, "--data", "stories:5", *by), f"{kind} chooses the layer itself"))
    if kind == "sequence":
        wrong.append(((*learn, "--out", tmp_path / "other", "--width", 2), "width"))
    wrong.append(((*learn, "--out", tmp_path / "other", "--penalty", "-1"), "penalty"))
    for arguments, words in wrong:
        refused = seqloom(*arguments)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert words in refused.err


@pytest.mark.slow
def test_calibrate(seqloom: Seqloom, trained: Path) -> None:
    ask = ("study", "calibrate", trained, "--data", "stories:5", "--longest", 6, "--thresholds", "1,0.5")
    answer = seqloom(*ask)
    assert answer.code == 0, answer.err
    assert "no threshold passes the test: read more than 5 texts" in answer.out
    printed = json.loads(seqloom(*ask, "--delta", 0.9, "--epsilon", 0.5, "--json").out)
    assert (printed["chosen"], printed["losses"]) == (0.5, [0.0, 0.0]), "one layer leaves nothing out"
    for wrong, words in (
        ("--delta=0", "delta lies between"),
        ("--thresholds=x", "--thresholds must be a list of numbers"),
    ):
        refused = seqloom(*ask, wrong)
        assert refused.code == 2
        assert words in refused.err
