"""Training steps on noise, which races time: as a training runs them, captured where that is."""

import pytest
import torch

from seqloom.studies.random_batches import random_updates, training_step
from seqloom.training.captured import Captured, chosen_steps
from seqloom.training.settings import resolve
from tests.training.recorded import Graph, on_a_cpu

CONFIG = resolve("tiny", ["model.dropout=0", "training.batch=2", "training.device=cpu"])


def losses(graph: str) -> list[float | None]:
    torch.manual_seed(0)
    training = CONFIG.training.model_copy(update={"graph": graph})
    steps = chosen_steps(random_updates(CONFIG.model, training), None, lambda line: None)
    updates = [*(steps(number) for number in range(3)), steps.wait()]
    assert isinstance(steps, Captured) == (graph == "auto")
    return [update.loss for update in updates if update is not None]


def test_a_race_times_captured_steps_where_a_training_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    monkeypatch.setattr("seqloom.studies.random_batches.takes_graphs", lambda device: True)
    assert losses("auto") == losses("none")
    made: list[Graph] = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: made.append(Graph()) or made[-1])
    step = training_step(CONFIG.model, CONFIG.training)
    for _ in range(3):
        step()
    assert [graph.replays for graph in made] == [3]
