"""Scores of models whose passes are recorded and replayed, with the graphs of `recorded` in place of CUDA's."""

from typing import Any

import pytest
import torch

from seqloom.data.probes import probe
from seqloom.data.windows import cut
from seqloom.evaluation import replayed
from seqloom.evaluation.replayed import FEWEST, Replayed
from seqloom.evaluation.scores import score
from seqloom.training.objectives.probe import ProbeObjective
from tests.training.recorded import Graph, on_a_cpu
from tests.training.stepping import CONTEXT, decoder, noise

QUESTIONS = probe("mqar:pairs=2,length=8,keys=4,values=4")


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The graph of each replay, on a CPU."""
    on_a_cpu(monkeypatch)
    done: list[Graph] = []
    real = Graph.replay
    monkeypatch.setattr(Graph, "replay", lambda self: done.append(self) or real(self))
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["he", "attention", "gated_delta"])
def test_a_held_out_score_is_the_same_number(replays: list[Graph], kind: str) -> None:
    """Batches of 5 windows are replayed, the last one with fewer is not."""
    model = decoder(kind)
    expected = score(model, noise(), batch=60)
    assert not replays, "one batch is not recorded"
    one = score(model, noise(), batch=5)
    assert (len(replays), len({id(graph) for graph in replays})) == (len(cut(noise(), CONTEXT)[0]) // 5, 1)
    torch.testing.assert_close(one.loss, expected.loss, rtol=1e-6, atol=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayed, "takes_graphs", lambda device: False)
        assert score(model, noise(), batch=5) == one
    assert model.training


@pytest.mark.slow
def test_a_probe_s_answers_are_the_same(replays: list[Graph]) -> None:
    model = decoder("he", vocab=QUESTIONS.vocab, context=QUESTIONS.row_tokens)
    objective = ProbeObjective(QUESTIONS, model.config.dim, 64, 0)
    captured = objective.score(model, None)
    assert len(replays) == 1024 // 64
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayed, "takes_graphs", lambda device: False)
        assert objective.score(model, None) == captured


def test_weights_that_changed_in_their_place_are_read(replays: list[Graph]) -> None:
    model = decoder("he", depth=1, dropout=0.0)
    ids = torch.arange(16).view(2, 8)
    predict = Replayed(model, lambda ids: model(ids), FEWEST)
    with torch.no_grad():
        before = predict(ids).clone()
        model.head.weight.mul_(2)
        assert predict(ids).equal(model(ids))
        assert not predict(ids).equal(before)
        assert predict(ids[:1]).equal(model(ids[:1])), "another shape runs as it is"
    assert len(replays) == 3


@pytest.mark.parametrize(
    ("kind", "batches"), [("adaptive_span", FEWEST), ("he", FEWEST - 1)], ids=["a mixer that reads", "few batches"]
)
def test_what_is_not_recorded(replays: list[Graph], kind: str, batches: int) -> None:
    model = decoder(kind, depth=1, dropout=0.0)
    ids = torch.arange(16).view(2, 8)
    with torch.no_grad():
        assert Replayed(model, lambda ids: model(ids), batches)(ids).equal(model(ids))
    assert not replays


@pytest.mark.parametrize("error", [RuntimeError("it reads\nmore"), torch.cuda.OutOfMemoryError("no room")], ids=str)
def test_a_recording_that_fails_is_said_in_one_line(
    replays: list[Graph], capsys: pytest.CaptureFixture[str], error: RuntimeError
) -> None:
    model = decoder("he", depth=1, dropout=0.0)
    ids = torch.arange(16).view(2, 8)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():

        def fails(work: Any) -> Any:
            raise error

        patch.setattr(replayed, "record", fails)
        predict = Replayed(model, lambda ids: model(ids), FEWEST)
        assert [predict(ids).equal(model(ids)) for _ in range(2)] == [True, True]
    first = str(error).splitlines()[0]
    assert capsys.readouterr().err == f"scoring goes on uncaptured, since the capture failed: {first}\n"
    assert not replays
