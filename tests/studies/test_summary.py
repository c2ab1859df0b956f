"""The summary of a comparison has the numbers, texts and views of its runs."""

import json
import statistics
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.cli.work.comparison import format_comparison
from seqloom.core.statistics import differences, mean_of
from seqloom.generation.decode import generate
from seqloom.report import page
from seqloom.report.comparison import Comparison
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.runs.rows import encode
from seqloom.studies.candidate_cell import last_tenth
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.columns import STATISTICS
from seqloom.studies.compare import Compare
from tests.studies.comparing import SMALL, THREE, compare

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("stopped_clocks")
def test_rows_are_the_runs_numbers(tmp_path: Path) -> None:
    comparison = compare(THREE, "tiny", SMALL, tmp_path, seeds=2)
    result = comparison.contenders
    assert {each.name for each in result} == {each.name for each in THREE}
    assert [each.row["held-out loss"] for each in result] == sorted(each.row["held-out loss"] for each in result)
    everything = {}
    for each in result:
        runs = [read(tmp_path / folder / "metrics.jsonl") for folder in each.runs]
        assert each.runs == [f"{each.name}/seed-{seed}" for seed in (0, 1)]
        held = [run[-1]["held_out"] for run in runs]
        assert held[0] != held[1], "seeds draw other weights"
        assert each.row["held-out loss"] == pytest.approx(statistics.mean(held))
        assert each.spread["held-out loss"] == held
        losses = [[step["loss"] for step in run if "loss" in step] for run in runs]
        assert [len(run) for run in losses] == [6, 6]
        assert each.row["training loss"] == pytest.approx(statistics.mean(run[-1] for run in losses))
        assert [len(positions) for positions in each.by_position] == [16, 16]
        everything[each.name] = dict(enumerate(held))
    assert (comparison.baseline, comparison.paired, comparison.stretch) == ("attention-heads=2", False, 1)
    apart = differences(everything, dict.fromkeys(everything, comparison.baseline))
    for each in result:
        own, one = everything[each.name], apart.get(each.name)
        assert each.row["± held-out"] == mean_of(list(own.values())).half
        assert each.row["to baseline"] == (one and one.estimate.mean)
        assert each.row["± to baseline"] == (one and one.estimate.half)
        assert each.row["adjusted p"] is each.row["could settle"] is None, "two seeds decide nothing"


@pytest.mark.parametrize(("batches", "last"), [(3, 1), (19, 1), (300, 30), (3000, 300)])
def test_a_training_loss_is_of_the_last_tenth(batches: int, last: int, tmp_path: Path) -> None:
    rows = [{"step": step, "loss": float(step > batches - last)} for step in range(1, batches + 1)]
    rows.append({"step": batches, "held_out": 4.0, "bits_per_byte": 2.0})
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(map(encode, rows)))
    cell = Compare(THREE[:1], "tiny", SMALL)._run(THREE[0], 0)
    (row,) = cell.read(Run(tmp_path), None)
    assert (row.training, row.held_out, row.bits_per_byte) == (1.0, 4.0, 2.0)
    assert last_tenth(batches) == last


@pytest.mark.usefixtures("stopped_clocks")
def test_the_baseline_is_the_first_with_attention(tmp_path: Path) -> None:
    comparison = compare([THREE[1], THREE[0]], "tiny", SMALL, tmp_path)
    assert (comparison.baseline, comparison.paired) == (THREE[0].name, False)
    assert compare([THREE[1]], "tiny", SMALL, tmp_path).baseline == "she"


@pytest.mark.usefixtures("stopped_clocks")
def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    comparison = compare(THREE[:2], "tiny", SMALL, tmp_path)
    shown = [column.name for column in comparison.columns]
    assert [name for name in STATISTICS if name in shown] == ["to baseline"]
    assert all(contender.row["± held-out"] is None for contender in comparison.contenders)
    assert "No difference to attention-heads=2 can be called significant: one run of each." in format_comparison(
        comparison
    )


def test_the_stored_comparison(tmp_path: Path) -> None:
    comparison = compare(THREE, "tiny", SMALL, tmp_path, prompts=["The king", "Once"], command="seqloom compare she")
    document = json.loads((tmp_path / "comparison.json").read_text())
    assert Comparison.model_validate(document) == comparison
    assert comparison.origin.command == "seqloom compare she"
    assert comparison.text.floor < comparison.text.unigram
    names = [column.name for column in comparison.columns]
    assert names[0] == "held-out loss"
    for each in comparison.contenders:
        assert set(names) <= set(each.row)
        for name in ("ms a step", "peak MB a step", "ms a generated token", "state bytes", "operations a token"):
            assert each.row[name] > 0, name
        assert 0 <= each.row["agreeing"] <= each.row["grammatical"] <= 1
        assert [(one.prompt, one.seed) for one in each.samples] == [
            *(("The king", 0), ("The king", 1)),
            *(("Once", 0), ("Once", 1)),
        ]
        assert all(0 < p <= 1 for one in each.samples for _, p in one.tokens)
        assert each.operations_a_batch == pytest.approx(each.row["operations a token"] * 64, rel=0.01)
    attention = next(contender for contender in comparison.contenders if contender.kind == "attention")
    assert [view.name for view in attention.views] == [
        "mean weights of 2 heads",
        "weights of head 0",
        "weights of head 1",
        "reach",
    ]
    assert len(attention.views[0].labels) == len(attention.views[0].values) == 16
    she = next(contender for contender in comparison.contenders if contender.kind == "she")
    assert [len(row) for row in she.views[0].values] == [32] * 16


@pytest.mark.usefixtures("stopped_clocks")
def test_a_pattern_that_covers_the_context_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = [
        parse_candidate("attention:heads=2"),
        parse_candidate("longformer:heads=2"),
        parse_candidate("longformer:heads=2,window=4"),
    ]
    result = compare(two, "tiny", SMALL, tmp_path)
    said = "the pattern of longformer covers the context of 16 tokens: it equals attention here"
    assert {each.name: each.same_as for each in result.contenders} == {
        "attention-heads=2": None, "longformer-heads=2": "attention", "longformer-heads=2-window=4": None,
    }  # fmt: skip
    losses = {each.name: each.row["held-out loss"] for each in result.contenders}
    assert losses["longformer-heads=2"] == pytest.approx(losses["attention-heads=2"], abs=1e-5)
    assert [line for line in format_comparison(result).splitlines() if "covers" in line] == [
        f"longformer-heads=2: {said}"
    ]
    shown = page.write(tmp_path).read_text(encoding="utf-8")
    assert shown.count("= attention here") == 1
    assert capsys.readouterr().err.count(said) == 1, "training says it"


def test_a_sample_has_the_models_probabilities(tmp_path: Path) -> None:
    comparison = compare(THREE[:1], "tiny", SMALL, tmp_path, prompts=["Once upon"])
    model = seqloom.load(tmp_path / THREE[0].name / "seed-0")
    prompt = model.tokenizer.encode("Once upon")
    expected = comparison.contenders[0].samples[0].tokens
    ids = list(generate(model, prompt, max_tokens=20, hop=4, top_p=0.6, seed=0))
    assert "".join(piece for piece, _ in expected) == model.tokenizer.decode(ids)
    first = model(torch.tensor([prompt])).detach()[0, -1].softmax(0)[ids[0]]
    assert expected[0][1] == pytest.approx(float(first), abs=1e-4)
