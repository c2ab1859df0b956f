"""A comparison of every mixer: all kinds; a failing one does not abort the others; limitations."""

import json
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.mixers import kinds
from seqloom.report.comparison import Comparison
from seqloom.report.page import write
from seqloom.studies import all_mixers as module
from seqloom.studies import study as experiment
from seqloom.studies.all_mixers import all_mixers, fitting
from seqloom.studies.candidates import Candidate, parse_candidate
from seqloom.studies.compare import Compare
from seqloom.studies.limitations import limitations
from seqloom.training.losses import NotFinite
from seqloom.training.objectives import probe as objectives
from seqloom.training.settings import resolve
from tests.kinds import CAUSAL
from tests.studies.comparing import SMALL, compare

SOURCE = ["data.source=stories:30:0"]
WILD = Candidate("wild", ("model.mixer={kind: me}", "training.lr=1e30"))
THREE = {name: kinds()[name] for name in ("attention", "me", "linear")}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "ROWS", 32)
    monkeypatch.setattr(objectives, "CHECKED", 8)
    monkeypatch.setattr("seqloom.studies.decoding.latency", lambda model, state, tokens: 0.002)


@pytest.mark.slow
def test_every_kind_is_a_contender_with_its_defaults() -> None:
    result = all_mixers(["mamba:state_dim=4", "rwkv", "attention:heads=32"])
    assert [each.name for each in result] == [*CAUSAL, "attention-heads=32", "mamba-state_dim=4"]
    assert "identity" in CAUSAL, "which sees no other token"
    for each in result[: len(CAUSAL)]:
        config = resolve("paper/small", [*SOURCE, *each.changes])  # which has attention with 32 heads
        assert config.model.mixers[0] == kinds()[each.name]()


@pytest.mark.slow
def test_a_mixer_without_enough_memory_is_left_out_with_the_reason() -> None:
    fit, left_out = fitting(all_mixers(), "tiny", [*SOURCE, "model.dim=6"])
    assert {"attention", "attention-heads=32", "retention"} <= left_out.keys()
    assert {"she", "s5"} <= {each.name for each in fit}
    assert len(fit) + len(left_out) == len(all_mixers())
    assert "dim 6 is not divisible by heads 32" in left_out["attention-heads=32"]
    large = ["model.dim=4096", "model.depth=50", "model.context=500"]  # matrices of SHE's, not vectors of HE's
    fit, left_out = fitting([parse_candidate("she"), parse_candidate("me")], "tiny", [*SOURCE, *large])
    assert "of memory, and" in left_out["she"]
    assert [each.name for each in fit] == ["me"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "changes", "says"),
    [
        (["attention:heads=5"], [], "heads 5"),
        (["atention"], [], "did you mean 'attention'"),
        ([], ["model.dmi=4"], "did you mean 'dim'"),
    ],
)
def test_what_was_asked_for_must_fit(named: list[str], changes: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fitting(all_mixers(named), "tiny", [*SOURCE, *changes], named=named)


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_a_mixer_that_cannot_be_trained_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = [parse_candidate("attention:heads=2"), WILD]

    def every(left_out: dict[str, str]) -> Comparison:
        out, probes = tmp_path / "all", ["parity"]
        return compare(two, "tiny", SMALL, out, left_out=left_out, lengths=[16, 8], probes=probes, probe_batches=2)

    rows = every({"none": "no room"})
    good, wild = rows.contenders
    names = [column.name for column in rows.columns]
    assert "ms a generated token" not in names, "a token's time is that after the lengths"
    assert names[-5:] == [
        *("ms a token at 8", "ms a token at 16", "state bytes at 8", "state bytes at 16", "parity right"),
    ]
    assert set(names) <= good.row.keys()
    assert set(names) == wild.row.keys()
    measured = names[-5:-1]
    assert all(good.row[name] is not None and wild.row[name] is not None for name in measured)
    assert all(wild.row[name] is None for name in names if name not in measured)
    assert good.row["ms a token at 16"] == 2.0
    assert good.row["state bytes at 16"] == 2 * good.row["state bytes at 8"]
    assert 0 <= good.row["parity right"] <= 1
    assert rows.probe_batches == 2
    assert "trained on this probe alone, for at most 2 batches" in rows.columns[-1].meaning
    assert good.limitations == ["keep a state of one size: it grows with the text"]
    assert wild.limitations[0].startswith("be trained so: stopped at step")
    assert wild.limitations[-1].startswith("do parity: stopped at step")
    assert [(each.name, each.why) for each in rows.left_out] == [("none", "no room")]
    page = write(tmp_path / "all").read_text(encoding="utf-8")
    assert "be trained so: stopped at step" in page
    assert "left out: no room." in page
    real = experiment.train
    monkeypatch.setattr(experiment, "train", lambda config, folder, **n: real(config, only(folder, "wild"), **n))
    again = every({})
    assert [each.row for each in again.contenders] == [each.row for each in rows.contenders]


def only(folder: Path, but: str) -> Path:
    assert folder.parent.name != but, "what failed is not tried again"
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_without_a_mixer_that_can_be_trained_there_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(NotFinite, match="no contender can be trained so; wild: stopped at step"):
        compare([WILD], "tiny", SMALL, tmp_path, left_out={})


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_what_is_not_asked_for_is_not_there(tmp_path: Path) -> None:
    comparison = compare([parse_candidate("me")], "tiny", SMALL, tmp_path)
    assert "left_out" not in json.loads((tmp_path / "comparison.json").read_text())
    assert comparison.probe_batches is None
    assert not (tmp_path / "probes").exists()
    assert not list(tmp_path.rglob("decoding-*"))


def test_a_probe_that_a_mixer_cannot_take_has_no_value() -> None:
    two = [parse_candidate("attention:heads=5"), parse_candidate("me")]
    study = Compare(two, "tiny", SMALL, probes=["parity"], probe_batches=2)
    assert [cell.mixer for cell in study._probes()] == ["me"]
    assert "heads 5" in study.probes_left_out["attention-heads=5", "parity"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("attention", ["it grows with the text"]),
        ("she", ["shorter than its context", "weights for each lag or position"]),
        ("hyena", ["shorter than its context"]),
        ("aft_full", ["it grows with the text", "weights for each lag or position", "a text that is longer"]),
        ("aft_local", ["weights for each lag or position", "a text that is longer"]),
        ("lightweight_conv", []),
        ("spade", []),
        ("mamba", []),
    ],
)
def test_limitations_of_a_mixer(kind: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result = limitations(resolve("tiny", [*SOURCE, f"model.mixer={{kind: {kind}}}"]).model)
    assert len(result) == len(words)
    assert all(word in phrase for word, phrase in zip(words, result, strict=True))


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_compare_all_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "kinds", lambda: THREE)
    words = ["compare", "--all", "me:", "--preset", "tiny", "--source", "stories:30:0", "--set", "training.batches=2"]
    words += ["--set", "model.dim=6", "--lengths", "8", "--out", str(tmp_path), "--probe-batches", "1"]
    assert command([*words, "--probe", "copying"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("me ")] == ["me", "me"]
    assert "linear is left out: dim 6 is not divisible by heads 4" in out
    assert "copying right" in out
    written = json.loads((tmp_path / "comparison.json").read_text())
    assert [each["name"] for each in written["contenders"]] == ["me"]
    assert [each["name"] for each in written["left_out"]] == ["attention", "linear", "attention-heads=32"]
    assert command([*words, "--no-probes"]) == 0
    assert "copying right" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--all", "--match", "mul"], "leave out --match"),
        (["--all", "shee"], "did you mean 'she'?"),
        (["me", "--lengths", "many"], "e.g. 128,1024,8192,65536, not 'many'"),
        (["me", "--lengths", "8,8"], "from 1 on that differ"),
        (["me", "--probe", "mqr"], "did you mean 'mqar'?"),
        (["me", "--probe", "mqar", "--probe", "mqar"], "each probe once"),
        (["me", "--probe", "mqar", "--probe-batches", "0"], "--probe-batches must be at least 1"),
        ([], "contenders of different names, not none"),
    ],
)
def test_wrong_calls_of_the_command(
    tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["compare", *words, "--preset", "tiny", "--data", "stories:30:0", "--out", str(tmp_path / "x")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
