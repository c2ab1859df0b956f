"""Every mixer goes through every stage of a comparison: training, portrait, probe, race, lengths, table and page."""

from pathlib import Path

import pytest
import torch

from seqloom.cli.work.comparison import format_comparison
from seqloom.data.tokenizer import Tokenizer
from seqloom.models.kinds import model_config
from seqloom.report import page
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.compare import Compare
from seqloom.studies.pictures import plot_model
from seqloom.studies.runner import run
from seqloom.studies.summary import write
from seqloom.training.objectives import probe as objectives
from tests.kinds import FORMS

TEXT = "the cat sat on the mat and the dog lay by the door "
CHANGES = ["data.source=stories:30:0", "model.context=64", "model.depth=2", "model.dim=8", "model.ffn=8"]
CHANGES += ["training.batches=1", "training.save_every=1"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([TEXT], 260)


@torch.no_grad()
@pytest.mark.parametrize(("kind", "causal"), FORMS)
def test_views_of_each_layer_end_with_its_reach(kind: str, causal: bool, tokenizer: Tokenizer) -> None:
    form = "decoder" if causal else "encoder"
    sizes = {"vocab": 270, "dim": 8, "depth": 2, "ffn": 8, "context": 64}
    model = model_config({**sizes, "kind": form, "mixer": {"kind": kind}}).build().eval()
    shown = plot_model(model, tokenizer, tokenizer.encode(TEXT)[:9])
    last = {view["layer"]: view for view in shown}
    assert [(layer, view["name"]) for layer, view in last.items()] == [(0, "reach"), (1, "reach")]
    assert all(len(view["values"]) == len(view["labels"]) == 9 for view in last.values())


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
@pytest.mark.parametrize(("kind", "causal"), FORMS)
def test_no_stage_fails(kind: str, causal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "ROWS", 32)
    monkeypatch.setattr(objectives, "CHECKED", 8)
    monkeypatch.setattr("seqloom.studies.decoding.latency", lambda model, state, tokens: 0.002)
    monkeypatch.setattr("seqloom.studies.pictures.TOKENS", 3)
    monkeypatch.setattr("seqloom.studies.samples.STORIES", 1)
    monkeypatch.setattr("seqloom.studies.samples.LENGTH", 3)
    if causal:
        study = Compare([parse_candidate(kind)], "tiny", CHANGES, lengths=[8], probes=["parity"], probe_batches=1)
    else:
        changes = [*CHANGES, "model.kind=encoder", "training.objective.kind=masked_token"]
        study = Compare([parse_candidate(kind)], "tiny", changes)
    results = run(study.study, tmp_path)
    assert not results.failed
    comparison = write(study, results, "")
    (one,) = comparison.contenders
    assert one.row["held-out loss"] > 0
    assert {view.layer for view in one.views} == {0, 1}
    assert bool(one.samples) == causal
    assert kind in format_comparison(comparison)
    assert kind in page.write(tmp_path).read_text(encoding="utf-8")
