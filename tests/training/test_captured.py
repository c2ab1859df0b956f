"""Captured training steps, with the graphs of `recorded` in place of CUDA's: the same bits as without them."""

import math
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.exc import TritonMissing

from seqloom.core.objective import Objective
from seqloom.core.recording import WARM_UP
from seqloom.ops.backends import use
from seqloom.runs.metrics import Metrics
from seqloom.training.captured import Captured
from seqloom.training.loop import Updates
from seqloom.training.losses import NotFinite
from seqloom.training.objectives.actions import Actions
from seqloom.training.objectives.actor_critic import ActorCritic
from seqloom.training.objectives.carried import CarriedNextToken
from seqloom.training.objectives.exits import MixedExits
from seqloom.training.objectives.labels import Labels
from seqloom.training.objectives.next_token import NextToken, PackedNextToken
from seqloom.training.objectives.pairs import Pairs
from seqloom.training.objectives.probe import ProbeObjective
from seqloom.training.optimizers import optimizer
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from tests.training.recorded import Graph, on_a_cpu, poison
from tests.training.running import digests, newest, rows, same, tiny
from tests.training.stepping import CONTEXT, decoder, noise

CHANGES = ("training.batch=4", "training.accumulate=2", "training.clip=1.0", "training.lr=0.01")
SCHEDULE = "training.schedule={kind: cosine, warmup: 2}"


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs on a CPU."""
    on_a_cpu(monkeypatch)


def updates(kind: str, *changes: str, **settings: Any) -> Updates:
    """The steps of a small model with dropout, whose rates are held on its device as on a GPU."""
    model = decoder(kind, **settings)
    objective = NextToken(noise(), CONTEXT, 4)
    config = resolve("tiny", [*CHANGES, *changes]).training
    memory = optimizer(model, config, objective)
    memory.hold_rates(torch.device("cpu"))
    return Updates(Learner(model, objective), memory, config, seed=0)


def captured(kind: str, *changes: str, **settings: Any) -> tuple[Captured, Updates]:
    steps = updates(kind, *changes, **settings)
    return Captured(steps, lambda line: pytest.fail(line)), steps


def tensors(steps: Updates) -> dict[str, Tensor]:
    """Weights, buffers and the optimizer's memory."""
    return {**steps.learner.state_dict(), **steps.optimizer.tensors()}


def equal(actual: Updates, expected: Updates) -> None:
    one, other = tensors(actual), tensors(expected)
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not tensor.equal(other[name])] == []


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("by", ["adamw", "muon"])
@pytest.mark.parametrize("kind", ["he", "attention", "performer", "routing"])
def test_losses_and_weights_are_the_same_bits(kind: str, by: str) -> None:
    """With dropout, a schedule and clipping; each loss comes with its step, one step late where nothing follows it."""
    with use(random_features="stable"):  # the one of both backends that a GPU has
        check_same_bits(kind, by)


def check_same_bits(kind: str, by: str) -> None:
    plain = updates(kind, SCHEDULE, f"training.optimizer={by}")
    steps, inside = captured(kind, SCHEDULE, f"training.optimizer={by}")
    expected = [plain(number) for number in range(5)]
    actual = [*(steps(number) for number in range(5)), steps.wait()]
    done = [update for update in actual if update is not None]
    assert (actual[0] is None) == (kind in ("he", "attention"))
    assert [(u.step, u.loss, u.lr) for u in done] == [(u.step, u.loss, u.lr) for u in expected]
    equal(inside, plain)
    assert steps.graph == "capture"
    assert steps.wait() is None


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
def test_the_graph_reads_its_own_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are overwritten once the next is given, and buffers between steps; the step's Python runs no more."""
    plain = updates("he")
    expected = [plain(number).loss for number in range(4)]
    steps, inside = captured("he")
    made: list[list[Tensor]] = []
    real = inside.batch

    def batch(number: int) -> Any:
        for tensor in chain.from_iterable(made[:-1]):  # the last may not be copied yet: this one is made ahead
            poison(tensor)
        parts, divisors = real(number)
        made.append([tensor for part in parts for tensor in part.values()])
        return parts, divisors

    inside.batch = batch  # type: ignore[method-assign]
    steps(0)
    assert steps._recording is not None
    monkeypatch.setattr(inside.step, "_run", lambda *given: pytest.fail("the model was called"))
    for number in (1, 2, 3):
        for buffer in steps._recording.buffers:
            for tensor in buffer.values():
                poison(tensor)
        update = steps(number)
        assert update is not None
        assert (update.step, update.loss) == (number, expected[number - 1])
    equal(inside, plain)


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
def test_warming_up_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, inside = captured("performer")
    steps(0)
    steps(1)
    before = {name: tensor.clone() for name, tensor in tensors(inside).items()}
    steps.begin_stage(0.005)
    calls: list[int] = []
    step = inside.step
    monkeypatch.setattr(inside, "step", lambda *given: calls.append(1) or step(*given))
    monkeypatch.setattr(Graph, "replay", lambda self: None)
    monkeypatch.setattr(Captured, "_read", lambda self, running: None)
    monkeypatch.setattr(inside.learner.model, "after_update", lambda *given: None)
    steps(2)
    assert len(calls) == WARM_UP + 1
    assert [name for name, tensor in tensors(inside).items() if not tensor.equal(before[name])] == []


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("by", ["adamw", "muon"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_loss_that_is_not_finite_changes_no_weight_and_is_named(waits: bool, by: str) -> None:
    """Neither at its step nor at the next one, which began before the host knew."""
    steps, inside = captured("he", f"training.optimizer={by}")
    for number in range(3):
        steps(number)
    before = {name: tensor.clone() for name, tensor in tensors(inside).items()}
    embedding: Tensor = inside.learner.get_parameter("model.token.weight")
    with torch.no_grad():
        kept = embedding.clone()
        embedding.fill_(math.nan)
        assert steps(3) is not None
        embedding.copy_(kept)  # the fault is gone at the next step, and its loss is finite
    with pytest.raises(NotFinite, match="step 4: the training loss is nan"):
        steps.wait() if waits else steps(4)
    assert [name for name, tensor in tensors(inside).items() if not tensor.equal(before[name])] == []


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
def test_a_capture_that_fails_goes_on_uncaptured(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with the losses and weights of a run that was never captured."""
    plain = updates("he")
    inside = updates("he")
    lines: list[str] = []
    steps = Captured(inside, lines.append)
    real = inside.learner.objective.losses
    recording = False

    def losses(*given: Any) -> Any:
        result = real(*given)
        if recording:
            result.losses["loss"].item()
        return result

    def graph(*given: Any, real: Any = torch.cuda.graph, **named: Any) -> Any:
        nonlocal recording
        recording = True
        return real(*given, **named)

    inside.learner.objective.losses = losses  # type: ignore[method-assign]
    monkeypatch.setattr(torch.cuda, "graph", graph)
    for number in range(3):
        update, expected = steps(number), plain(number)
        recording = False
        assert update is not None
        assert (update.step, update.loss, update.lr) == (expected.step, expected.loss, expected.lr)
    equal(inside, plain)
    assert steps.graph == "none"
    assert lines == [
        "training steps go on uncaptured, since the capture failed: aten::_local_scalar_dense reads from the device"
    ]


FAULTS = [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
    RuntimeError("CUDA error: operation not supported\nmore"),
    TritonMissing("Cannot find a working triton installation."),
]


@pytest.mark.slow
@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("place", ["warm-up", "recording"])
def test_no_room_an_old_driver_and_no_triton_are_one_line_each(
    monkeypatch: pytest.MonkeyPatch, place: str, fault: RuntimeError
) -> None:
    plain, inside = updates("he"), updates("he")
    lines: list[str] = []
    steps = Captured(inside, lines.append)
    real = inside.step._work

    def work(*given: Any) -> Any:
        calls.append(1)
        result = real(*given)
        if len(calls) == (1 if place == "warm-up" else WARM_UP + 1):
            raise fault
        return result

    calls: list[int] = []
    monkeypatch.setattr(inside.step, "_work", work)
    for number in range(2):
        update, expected = steps(number), plain(number)
        assert update is not None
        assert update.loss == expected.loss
    equal(inside, plain)
    assert lines == [f"training steps go on uncaptured, since the capture failed: {str(fault).strip().splitlines()[0]}"]


REASONS: dict[type[Objective], str] = {
    PackedNextToken: "packed",
    CarriedNextToken: "carry",
    MixedExits: "mixed",
    Labels: "longest",
    Pairs: "longest",
    Actions: "longest",
    ActorCritic: "plays",
}


@pytest.mark.parametrize("objective", list(REASONS), ids=lambda objective: objective.__name__)
def test_an_objective_that_is_not_captured_says_why(objective: type[Objective]) -> None:
    assert REASONS[objective] in objective.uncaptured_reason(object.__new__(objective), 1)


def test_micro_batches_of_questions_are_not_captured() -> None:
    questions = object.__new__(ProbeObjective)
    assert questions.uncaptured_reason(1) == ""
    assert "questions" in questions.uncaptured_reason(2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (["model.sublayers=reversible"], "reversible"),
        (["training.graph=none"], ""),
    ],
    ids=str,
)
def test_a_run_that_is_not_captured_says_why_in_one_line(
    out: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], why: str
) -> None:
    on_a_cpu(monkeypatch)
    monkeypatch.setattr(Captured, "_record", lambda *given: pytest.fail("it was captured"))
    if not why:
        monkeypatch.setattr(torch.cuda, "graph", lambda *given, **named: pytest.fail("it was captured"))
    lines: list[str] = []
    tiny(out, "training.batches=1", "training.batch=4", *changes, say=lines.append)
    about = [line for line in lines if "training step" in line]
    assert len(about) == (1 if why else 0)
    assert all("uncaptured" in line and why in line for line in about)
    assert "graph" not in newest(out).meta["surroundings"]


WINDOWS = "training.stages=[{batches: 4, window: 3, context: 8}, {batches: 5, window: 12, lr: 3e-4}]"
RUNS = {
    "plain": (),
    "stages": ("model.mixer={kind: attention, heads: 2, window: 12}", WINDOWS),
    "schedule": (SCHEDULE, "training.accumulate=2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS.keys())
def test_a_run_has_the_same_rows_and_weights(
    out: Path, monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...]
) -> None:
    """Captured, captured and stopped on the way, and uncaptured: with evaluations, checkpoints and stages between."""
    on_a_cpu(monkeypatch)
    lines: list[str] = []
    tiny(out / "none", "training.graph=none", *changes)
    tiny(out / "captured", *changes, say=lines.append)
    assert lines.count("each training step is replayed from a CUDA graph") == 1
    assert newest(out / "captured").meta["surroundings"]["graph"] == "capture"
    assert "graph" not in (out / "captured" / "config.json").read_text()
    assert digests(out / "captured") == digests(out / "none")
    assert rows(out / "captured") == rows(out / "none")
    stopped(out / "parts", 6, *changes)
    tiny(out / "parts", *changes)
    assert digests(out / "parts") == digests(out / "captured")


def stopped(folder: Path, step: int, *changes: str) -> list[dict[str, Any]]:
    """The rows of a run that a signal stopped, which came with the row of a step."""
    append = Metrics.append

    def watched(metrics: Metrics, row: dict[str, Any]) -> None:
        append(metrics, row)
        if row["step"] == step and "loss" in row:
            signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Metrics, "append", watched)
        assert tiny(folder, *changes).asked is signal.SIGTERM
    return rows(folder)


@pytest.mark.slow
def test_a_run_that_began_uncaptured_goes_on_so(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run that was made before there were graphs, or whose capture had failed."""
    on_a_cpu(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(Captured, "_record", _fails)
        tiny(out, "training.batches=5")
    lines: list[str] = []
    tiny(out, say=lines.append)
    assert [line for line in lines if "training step" in line] == ["training steps run uncaptured: as before"]


def _fails(self: Captured, number: int) -> Any:
    raise RuntimeError("no room\nbut for a second line")


@pytest.mark.slow
def test_capture_without_a_gpu_is_one_error(out: Path) -> None:
    with pytest.raises(ValueError, match=r"^training.graph=capture needs a GPU.*choose training.graph=auto$"):
        tiny(out, "training.graph=capture")
    assert not out.exists()
    lines: list[str] = []
    tiny(out, "training.batches=1", "training.graph=auto", say=lines.append)
    assert not [line for line in lines if "training step" in line]


@pytest.mark.slow
def test_a_signal_leaves_the_row_of_the_last_step(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose losses the host had not read when it came."""
    on_a_cpu(monkeypatch)
    tiny(out / "whole", "training.save_every=9")
    assert [row["step"] for row in stopped(out / "stopped", 2, "training.save_every=9")] == [1, 2, 3]
    assert newest(out / "stopped").step == 3
    tiny(out / "stopped", "training.save_every=9")
    same(out / "stopped", out / "whole")
