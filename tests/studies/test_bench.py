"""The bench checks before it times, sorts, pairs rounds, and its errors are one line; no test depends on real speed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.analysis.measure import Timing
from seqloom.cli.work.bench import time_mixers
from seqloom.mixers import kinds
from seqloom.mixers.attention.attention import Attention
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.ops import attention, lag_sum
from seqloom.ops.op import Backend
from seqloom.studies import bench as module
from seqloom.studies.bench import bench as cell
from seqloom.studies.bench import run_bench
from seqloom.studies.results import read
from seqloom.training.recipes import recipe

SMALL: dict[str, Any] = {"dim": 8, "context": 12, "batch": 3, "repeats": 2}
COLUMNS = {
    *("mixer", "what", "dim", "context", "batch", "ms_median", "ms_quartiles", "ratio_median", "ratio_quartiles"),
    *("backends", "operations_a_token", "repeats", "threads", "loaded", "against"),
}


def bench(mixers: list[str], against: str, **asked: Any) -> list[dict[str, Any]]:
    """The rows of a race, in a folder of its own."""
    with TemporaryDirectory() as folder:
        return [row.model_dump(mode="json") for row in run_bench(cell(mixers, against, **asked), Path(folder))]


@pytest.fixture
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("it was timed")

    monkeypatch.setattr(module, "race", forbidden)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs given times and a given share of others in place of real ones."""

    def install(times: dict[str, tuple[float, ...]], share: float | None = 0.0) -> None:
        def race(runs: Mapping[str, Any], repeats: int, **_: Any) -> dict[str, Timing]:
            return {name: Timing(times[name]) for name in runs}

        monkeypatch.setattr(module, "race", race)
        monkeypatch.setattr(module, "watch", lambda: lambda: share)

    return install


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sublayer", "forward", "token", "step"])
def test_real_rows_are_complete(what: Any) -> None:
    sizes = {"repeats": 1, "preset": "tiny"} if what == "step" else SMALL
    rows = bench(["she", "me", "attention:heads=2", "she"], "attention:heads=4", what=what, **sizes)
    assert sorted(row["mixer"] for row in rows) == ["attention:heads=2", "attention:heads=4", "me", "she"]
    assert [row["ms_median"] for row in rows] == sorted(row["ms_median"] for row in rows)
    for row in rows:
        assert set(row) == COLUMNS
        assert json.loads(json.dumps(row)) == row
        assert row["ms_median"] > 0 < row["ratio_median"]
        if row["mixer"] == row["against"]:
            assert (row["ratio_median"], row["ratio_quartiles"]) == (1, [1, 1])
        assert bool(row["backends"]) or (what == "token" and "attention" not in row["mixer"])
        assert (row["dim"], row["context"], row["batch"]) == ((32, 16, 4) if what == "step" else (8, 12, 3))


@pytest.mark.parametrize(("context", "batch"), [(None, 64), (128, 64), (100, 81), (8192, 1), (20_000, 1)])
def test_without_a_batch_a_race_reads_about_as_many_tokens_at_every_context(context: int | None, batch: int) -> None:
    race = cell(["identity"], "identity", dim=8, context=context)
    assert race.configs["identity"].training.batch == batch


@pytest.mark.slow
def test_operations_are_of_the_equation() -> None:
    she = kinds()["she"]().build(8, 12)
    (row,) = bench(["she"], "she", **SMALL)
    assert row["operations_a_token"] == she.cost(12).total // 12
    (row,) = bench([], "she", what="token", **SMALL)
    assert row["operations_a_token"] == she.cost(13, "token").total


@pytest.mark.slow
def test_sorted_by_time_with_ratios_of_the_same_round(fake: Callable[..., None]) -> None:
    fake({"she": (2.0, 4.0, 8.0), "he": (0.5, 1.0, 8.0), "we": (1.0, 2.0, 4.0)}, share=0.4)
    rows = bench(["she", "he"], "we", **SMALL)
    assert [(row["mixer"], row["ms_median"], row["ratio_median"]) for row in rows] == [
        ("he", 1000.0, 0.5),
        ("we", 2000.0, 1.0),
        ("she", 4000.0, 2.0),
    ]
    assert rows[0]["ratio_quartiles"] == [0.5, 1.25]
    assert rows[2]["ratio_quartiles"] == [2.0, 2.0]
    assert all(row["loaded"] is True for row in rows)


def off(value: Tensor) -> Tensor:
    return value * 1.001


class Wrong(torch.autograd.Function):
    """Right values, wrong gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:  # type: ignore[override]
        return dy * 1.001


BREAKS: dict[str, Callable[[pytest.MonkeyPatch], str]] = {}


def breaks(name: str) -> Callable[[Callable[[pytest.MonkeyPatch], str]], None]:
    return lambda function: BREAKS.__setitem__(name, function)


@breaks("values of a lag sum")
def _(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(lag_sum.OP, "rule", lambda x, w: "fft")
    real = lag_sum.OP["fft"]
    patch.setitem(lag_sum.OP.backends, "fft", Backend(lambda x, w: off(real(x, w))))
    return "forward on lag_sum fft"


@breaks("gradients of a lag sum")
def _(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(lag_sum.OP, "rule", lambda x, w: "fft")
    real = lag_sum.OP["fft"]
    patch.setitem(lag_sum.OP.backends, "fft", Backend(lambda x, w: Wrong.apply(real(x, w))))
    return "the input's gradient on lag_sum fft"


@breaks("values of attention")
def _(patch: pytest.MonkeyPatch) -> str:
    real = attention.fast.attend_by_scores
    patch.setattr(attention.fast, "attend_by_scores", lambda *given: off(real(*given)))
    return "forward on attention formed"


@breaks("not a number")
def _(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(lag_sum.OP, "rule", lambda x, w: "fft")
    real = lag_sum.OP["fft"]
    patch.setitem(lag_sum.OP.backends, "fft", Backend(lambda x, w: real(x, w) * float("nan")))
    return "is nan of"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sublayer", "forward", "step"])
@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.usefixtures("no_clock")
def test_wrong_mixers_get_no_time(name: str, what: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    message = BREAKS[name](monkeypatch)
    sizes = {"repeats": 1, "preset": "tiny"} if what == "step" else SMALL
    if (name, what) == ("not a number", "step"):
        message = "not finite|is nan"  # the training step itself refuses to learn from it
    mixer, peer = ("me", "attention:heads=4") if "attention" in name else ("he", "me")
    with pytest.raises(ValueError, match=message) as refusal:
        bench([mixer], peer, what=what, **sizes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("kind", "of"), [("she", Extractor), ("attention:heads=2", Attention)])
@pytest.mark.usefixtures("no_clock")
def test_a_wrong_step_gets_no_time(kind: str, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = of.advance

    def wrong(self: Any, x: Tensor, state: Any, reuse: bool) -> Any:
        y, state = real(self, x, state, reuse)
        return off(y), state

    monkeypatch.setattr(of, "advance", wrong)
    with pytest.raises(ValueError, match=f"^{kind} is wrong here and is not timed: step on .* is 0.001 of the largest"):
        bench([kind], "me" if of is Attention else "attention:heads=2", what="token", **SMALL)


REFUSED: dict[str, tuple[list[str], str, dict[str, Any], str]] = {
    "unknown mixer": (["shee"], "he", {}, "did you mean 'she'"),
    "unknown peer": (["she"], "atention", {}, "did you mean 'attention'"),
    "unknown setting": (["attention:head=2"], "he", {}, "did you mean 'heads'"),
    "no mixer": ([""], "he", {}, "attention:heads=32"),
    "heads": (["attention:heads=3"], "he", {}, "dim 8 is not divisible by heads 3"),
    "repeats": (["she"], "he", {"repeats": 0}, "--repeats must be at least 1, not 0"),
    "dim": (["she"], "he", {"dim": 0}, "--dim must be at least 1, not 0"),
    "batch": (["she"], "he", {"batch": -1}, "--batch must be at least 1, not -1"),
    "context": (["she"], "he", {"context": 2**30}, "less than or equal to"),
    "what": (["she"], "he", {"what": "tokens"}, "did you mean 'token'"),
    "preset": (["she"], "he", {"preset": "tiny"}, "--preset with --what step alone"),
    "unknown preset": (["she"], "he", {"preset": "tinny", "what": "step"}, "did you mean 'tiny'"),
    "room": (
        ["she"],
        "he",
        {"dim": 4096, "context": 2**20},
        "timing she needs at least .* TiB .* are available",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("no_clock")
def test_errors_of_bench_are_one_line(name: str) -> None:
    mixers, against, changed, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as refusal:
        bench(mixers, against, **{**SMALL, **changed})
    assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("no_clock")
def test_what_cannot_stream_has_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Extractor, "traits", replace(Extractor.traits, streams=False))
    with pytest.raises(ValueError, match=r"^she cannot read token by token: time it with --what sublayer or forward"):
        bench(["she"], "attention:heads=2", what="token", **SMALL)
    monkeypatch.setattr(Extractor, "traits", replace(Extractor.traits, longest=5))
    with pytest.raises(ValueError, match=r"^she reads at most 5 tokens, not 12"):
        bench(["she"], "attention:heads=2", **SMALL)


@pytest.mark.slow
def test_a_mixer_without_a_causal_form_is_timed_in_the_other(fake: Callable[..., None]) -> None:
    names = ["fnet", "linformer:k=2", "identity"]
    fake(dict.fromkeys(("attention:heads=2", *names), (0.001, 0.002)))
    rows = bench(names, "attention:heads=2", **SMALL)
    assert {row["mixer"] for row in rows} == {"attention:heads=2", *names}
    assert all(row["operations_a_token"] > 0 for row in rows)
    with pytest.raises(ValueError, match="fnet is bidirectional: it has no causal form"):
        bench(["fnet"], "attention:heads=2", what="step", **SMALL)
    with pytest.raises(ValueError, match=r"^fnet cannot read token by token"):
        bench(["fnet"], "attention:heads=2", what="token", **SMALL)


@pytest.mark.slow
def test_the_table(fake: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fake({"she": (0.002,) * 2, "me": (0.001, 0.003)}, share=0.5)
    shown = time_mixers(["she"], "me", **SMALL)
    lines = shown.splitlines()
    assert "dim 8, context 12, batch 3; medians of 2 interleaved runs" in lines[0]
    assert [line.split()[0] for line in lines[5:7]] in (["me", "she"], ["she", "me"])
    assert any(f"lag_sum {name}" in shown for name in lag_sum.OP.backends)
    assert shown.endswith("other processes used the cores meanwhile: trust the ratios more than the times")
    fake({"she": (0.002,) * 2, "me": (0.001, 0.003)})
    assert "other processes" not in time_mixers(["she"], "me", **SMALL)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_a_folder_of_races(fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake({"she": (0.002,) * 2, "me": (0.001, 0.003)})
    out = tmp_path / "new" / "races"

    def printed(**asked: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(time_mixers(["she"], "me", threads=1, as_json=True, out=out, **asked))
        return answer

    first, forward = printed(**SMALL), printed(**SMALL, what="forward")
    rows = read(out)
    assert len(rows) == 4
    assert set(rows[0]) - {"tag"} == COLUMNS | {"cell", "date", "commit", "command", "machine"}
    for race in (first, forward):
        what = race["rows"][0]["what"]
        assert race["rows"] == [{name: row[name] for name in COLUMNS} for row in rows if row["what"] == what]
    assert "1 threads" in first["machine"]
    monkeypatch.setattr(module, "race", None)
    assert printed(**SMALL)["rows"] == first["rows"], "it is not run again"


@pytest.mark.slow
def test_a_race_that_is_interrupted_leaves_no_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "race", interrupt)
    with pytest.raises(KeyboardInterrupt):
        time_mixers(["she"], "me", out=tmp_path, **SMALL)
    assert list(tmp_path.rglob("rows.json")) == []


@pytest.mark.usefixtures("no_clock")
def test_wrong_numbers_of_threads_and_wrong_files(tmp_path: Path) -> None:
    for threads in (0, -2, 10**6):
        with pytest.raises(ValueError, match="--threads must be"):
            time_mixers(["she"], "me", threads=threads, **SMALL)
    with pytest.raises(ValueError, match="did you mean"):
        time_mixers(["shee"], "me", out=tmp_path / "races", threads=1, **SMALL)
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.write_text("rows")
    with pytest.raises(ValueError, match="a file is in its place"):
        time_mixers(["she"], "me", out=file, **SMALL)
    assert file.read_text() == "rows"
    assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_sizes_of_a_step_are_the_presets() -> None:
    given = recipe("tiny")["model"]
    (row,) = bench(["me"], "me", what="step", repeats=1, preset="tiny", context=9)
    assert (row["dim"], row["context"], row["batch"]) == (given["dim"], 9, 4)
