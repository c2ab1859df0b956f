"""`seqloom knn`: a store is built, tuned and used; errors are one line."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Seqloom
from tests.cli.test_bad_input import refused


@pytest.fixture(scope="module")
def store(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from seqloom.cli import command

    folder = tmp_path_factory.mktemp("stores") / "store"
    assert command(["knn", "build", str(trained), "--data", "stories:9", "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_build_tune_evaluate_generate(seqloom: Seqloom, trained: Path, store: Path) -> None:
    again = seqloom("knn", "build", trained, "--data", "stories:9", "--out", store)
    assert again.code == 0
    assert "keys" in again.out
    grid = ("--k", "2,16", "--weights", "0.2,0.6", "--temperatures", "1,10")
    answer = seqloom("knn", "tune", trained, "--knn", store, "--data", "stories:3:9", *grid, "--json")
    assert answer.code == 0, answer.err
    printed = json.loads(answer.out)
    assert len(printed["losses"]) == 8
    shown = seqloom("knn", "tune", trained, "--knn", store, "--data", "stories:3:9", *grid)
    assert f"λ = {printed['best']['weight']:g}, k = {printed['best']['k']}" in shown.out
    assert shown.out.count("λ = ") == 3
    plain = json.loads(seqloom("evaluate", trained, "--data", "stories:3:9", "--json").out)
    assert plain["held_out"] == pytest.approx(printed["plain"])
    for further in ((), ("--search", "exact"), ("--memory", "none")):
        mixed = json.loads(
            seqloom("evaluate", trained, "--data", "stories:3:9", "--json", "--knn", store, *further).out
        )
        assert mixed["knn"] == printed["best"]
        assert mixed["held_out"] == pytest.approx(min(each["loss"] for each in printed["losses"]))
    assert "neighbors, their share" in seqloom("evaluate", trained, "--data", "stories:3:9", "--knn", store).out
    ask = ("generate", trained, "Once", "--max-tokens", 20)
    assert seqloom(*ask, "--knn", store).out == seqloom(*ask, "--knn", store).out != seqloom(*ask).out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "{run}", "--data", "stories:3", "--knn", "nowhere"], "nowhere is no store"),
        (["generate", "{run}", "Once", "--knn", "{run}"], "is no store: it has no store.json"),
        (["evaluate", "{run}", "--data", "stories:3", "--search", "exact"], "add --knn, or leave it out"),
        (["evaluate", "{run}", "--data", "stories:3", "--knn", "{store}", "--search", "exat"], "did you mean 'exact'"),
        (["generate", "{run}", "Once", "--knn", "{store}", "--search", "lists"], "no inverted lists"),
        (["knn", "tune", "{run}", "--knn", "{store}", "--data", "stories:3", "--k", "99999"], "choose a smaller k"),
        (
            ["knn", "tune", "{run}", "--knn", "{store}", "--data", "stories:3", "--k", "two"],
            "--k must be a list of whole",
        ),
        (["knn", "tune", "{run}", "--knn", "{store}", "--data", "stories:3", "--k", "0"], "k: input should be"),
        (["knn", "tune", "{run}", "--knn", "{store}", "--data", "stories:3", "--weights", "1"], "weight: input should"),
        (["knn", "tune", "{run}", "--knn", "{store}", "--data", "stories:3", "--temperatures", "nan"], "temperature"),
        (["knn", "build", "{run}", "--data", "stories:9", "--out", "{run}"], "holds something else than a store"),
        (
            ["knn", "build", "{run}", "--data", "stories:8", "--out", "{store}"],
            'holds a store of another text (source is "stories:9" there and "stories:8" here',
        ),
        (
            ["knn", "build", "{run}", "--data", "stories:9", "--out", "{store}", "--half"],
            "holds a store of other settings (half is false there and true here): choose another --out",
        ),
        (["knn", "build", "{run}", "--data", "stories:3", "--out", "new", "--probes", "3"], "--probes needs --lists"),
        (["knn", "build", "{run}", "--data", "stories:3", "--out", "new", "--column", "a"], "leave out --column"),
        (["knn", "build", "{run}", "--data", "stories:3", "--out", "new", "--stride", "99"], "a stride is from 1 to"),
        (["knn", "build", "{run}", "--data", "stories:3", "--out", "new", "--lists", "99999"], "choose fewer"),
    ],
)
def test_impossible_settings_of_knn(
    arguments: list[str],
    words: str,
    seqloom: Seqloom,
    trained: Path,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"{run}": str(trained), "{store}": str(store)}
    refused(seqloom(*(named.get(word, word) for word in arguments)), words)
    assert not (tmp_path / "new").exists()
