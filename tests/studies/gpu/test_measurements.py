"""A1 and the races of A2 and A3 in tiny sizes, captured by graphs on a CPU; the peers next to our models."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seqloom.core.progress import show_nothing
from seqloom.studies.study import Study
from seqloom_studies.gpu import measurements, peers, smoke
from seqloom_studies.gpu.card import Card
from seqloom_studies.gpu.kernels import Kernel
from seqloom_studies.gpu.queue import Place
from seqloom_studies.gpu.sizes import TINY
from seqloom_studies.gpu.smoke import Check, Smoke
from seqloom_studies.gpu.steps import StepRace, StepTime
from tests.training.recorded import on_a_cpu


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Card("cpu", "CPU", {}), replace(TINY, rounds=1), tmp_path, None, tmp_path)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    for module in ("seqloom.studies.random_batches", "seqloom_studies.gpu.smoke"):
        monkeypatch.setattr(f"{module}.takes_graphs", lambda device: True)


def cells(study: Study) -> list:
    return [cell for stage in study.stages(None) for cell in stage]  # type: ignore[arg-type]  # no stage reads rows


def smoke_of(place: Place, *names: str) -> Smoke:
    (cell,) = cells(smoke.smoke_study(place, "code"))
    return replace(cell, models={name: cell.models[name] for name in names})


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
def test_captured_steps_of_the_queued_models_are_those_without(place: Place, tmp_path: Path) -> None:
    rows = smoke_of(place, "he of A2 with dropout", "attention of A3").run(tmp_path, pytest.fail, show_nothing)
    checks = [row for row in rows if isinstance(row, Check) and "captured steps of" in row.what]
    assert [(row.difference, row.note) for row in checks] == [(0.0, "the same bits")] * 4
    assert [row.bound is None for row in checks] == [True, True, False, False]


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("wrong", ["no step", "another batch", "another loss"])
def test_captured_steps_that_do_something_else_are_a_fault(
    wrong: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = smoke._train_steps

    def changed(name, config, graph, device):
        trained = train(name, config, graph, device)
        if graph == "none":
            return trained
        if wrong == "no step":
            return replace(trained, weights=trained.start)
        if wrong == "another loss":
            return replace(trained, losses=[loss * 1.1 for loss in trained.losses])
        draws = torch.Generator().manual_seed(1)
        signs = torch.randint(2, trained.weights.shape, generator=draws) * 2.0 - 1
        return replace(trained, weights=trained.start + signs * (trained.weights - trained.start))

    monkeypatch.setattr(smoke, "_train_steps", changed)
    with pytest.raises(ValueError, match=r"captured steps of he of A2 are off by .*, and at most 0\.\d+ is right"):
        smoke_of(place, "he of A2").run(tmp_path, pytest.fail, show_nothing)


@pytest.mark.usefixtures("graphs")
def test_a_step_that_is_not_captured_is_a_fault(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(graph: object, capture_error_mode: str) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", fails)
    with pytest.raises(ValueError, match=r"a step of he of A2 was not captured: .* operation not permitted"):
        smoke_of(place, "he of A2").run(tmp_path, lambda line: None, show_nothing)


@pytest.mark.usefixtures("graphs")
def test_a_race_has_a_row_for_each_model_and_way_with_its_baseline(place: Place, tmp_path: Path) -> None:
    race, *_ = cells(measurements.table1_study(place, "code"))
    assert isinstance(race, StepRace)
    keys = [("attention:heads=32", "eager"), ("he", "captured"), ("he", "captured, TF32")]
    race = replace(race, resolved={key: race.resolved[key] for key in keys})
    precision = torch.get_float32_matmul_precision()
    rows = race.run(tmp_path, lambda line: None, show_nothing)
    assert all(isinstance(row, StepTime) and row.ms is not None for row in rows)
    assert [(row.model, row.way) for row in rows] == keys
    assert [row.graph for row in rows] == ["none", "capture", "capture"]
    assert (rows[0].ratio, rows[0].baseline) == (1.0, "attention:heads=32 / eager")
    assert torch.get_float32_matmul_precision() == precision


def test_what_cannot_run_is_left_out_with_its_reason_but_not_the_baseline(place: Place, tmp_path: Path) -> None:
    race = next(cell for cell in cells(measurements.wide_study(place, "code")) if cell.name == "gated_delta")
    race = replace(race, resolved={race.baseline: race.resolved[race.baseline]})
    if reason := peers.unavailable():
        ours, fla = race.run(tmp_path, lambda line: None, show_nothing)
        assert (fla.model, fla.way, fla.ms, fla.left_out) == ("gated_delta", "fla's layers", None, reason)
        assert (ours.graph, ours.left_out) == ("none", None)
    broken = race.resolved[race.baseline].model_copy(
        update={"training": race.models["gated_delta"].training.model_copy(update={"device": "nowhere"})}
    )
    with pytest.raises(ValueError, match="the baseline does not run: no device 'nowhere'"):
        replace(race, resolved={race.baseline: broken}).run(tmp_path, lambda line: None, show_nothing)


def test_the_longest_kernels_of_a_step_are_rows(place: Place, tmp_path: Path) -> None:
    table = cells(measurements.table1_study(place, "code"))[-1]
    rows = replace(table, models={"he": table.models["he"]}).run(tmp_path, pytest.fail, show_nothing)
    assert all(isinstance(row, Kernel) for row in rows)
    assert rows
    assert [row.ms for row in rows] == sorted((row.ms for row in rows), reverse=True)


def test_the_peer_with_attention_is_our_model_and_is_trained(place: Place) -> None:
    (race, *_) = cells(measurements.wide_study(place, "code"))
    config = race.models["attention"].layered_model
    ours = config.build().double()
    mixer = config.mixer
    peer = peers.Peer(config, lambda: peers.Attention(config.dim, mixer.heads, config.context, 1e4)).double()
    block, (layer, *_) = peer.blocks[0], ours.layers
    pairs = [
        (peer.embedding.weight, ours.token.weight),
        (block.mixer.qkv.weight, layer.mixer.w_qkv.weight),
        (block.mixer.out.weight, layer.mixer.w_out.weight),
        (block.gate_and_value.weight, torch.cat((layer.ffn.w_gate.weight, layer.ffn.w_1.weight))),
        (block.out.weight, layer.ffn.w_2.weight),
    ]
    with torch.no_grad():
        for theirs, value in pairs:
            theirs.copy_(value)
    ids = torch.randint(config.vocab, (2, config.context + 1), generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cross_entropy(ours(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(peer(ids).double(), expected, rtol=1e-5, atol=0)
    assert sum(p.numel() for p in peer.parameters()) == sum(p.numel() for p in ours.parameters())
    step = peers.attention_step(config, race.models["attention"].training, "cpu", compiled=False)
    first, *_, last = [step() for _ in range(3)]
    assert first != last
