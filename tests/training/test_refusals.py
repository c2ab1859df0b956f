"""Resuming another run raises one line; a run that is the same in other words resumes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from seqloom.ops import lag_sum
from seqloom.runs import model as stored
from seqloom.runs.lock import lock
from seqloom.training.drift import backends_of
from seqloom.training.train import Outcome
from tests.training.running import digests, mixer, newest, rows, saved, tiny

Whole = Callable[..., Outcome]


@pytest.fixture
def begun(out: Path) -> Path:
    tiny(out, "training.batches=4")
    return out


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    yield torch.set_num_threads
    torch.set_num_threads(1)


@pytest.mark.slow
def test_the_threads_of_before_are_used_again(begun: Path, whole: Whole, threads: Callable[[int], None]) -> None:
    expected = digests(whole().run.folder)
    threads(2)
    messages: list[str] = []
    tiny(begun, say=messages.append)
    assert any(line.startswith("using 1 threads, as the run did before (there are 2 here") for line in messages)
    assert torch.get_num_threads() == 2, "the caller's own threads are given back"
    assert digests(begun) == expected


@pytest.mark.slow
def test_threads_may_drift(begun: Path, threads: Callable[[int], None]) -> None:
    threads(2)
    messages: list[str] = []
    assert tiny(begun, allow_drift=True, say=messages.append).step == 9
    assert "drift allowed: threads was 1, is 2" in messages


@pytest.mark.slow
def test_the_backends_of_before_are_used_again(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = newest(begun).meta["surroundings"]["backends"]["lag_sum"]
    other = "direct" if before == ["fft"] else "fft"
    monkeypatch.setattr(lag_sum.OP, "rule", lambda x, w: other)
    tiny(begun)
    assert newest(begun).meta["surroundings"]["backends"]["lag_sum"] == before


def test_an_op_that_is_gone_is_chosen_no_more() -> None:
    before = {"lag_sum": ["fft"], "gelu_gate": ["native"], "scans": ["sideways"], "delta_rule": ["chunked", "native"]}
    assert backends_of({"backends": before}) == {"lag_sum": "fft"}


def test_the_backends_are_those_of_its_precision(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_sum.OP, "rule", lambda x, w: "direct" if torch.is_autocast_enabled("cpu") else "fft")
    tiny(out, "training.precision=bf16")
    assert newest(out).meta["surroundings"]["backends"]["lag_sum"] == ["direct"]


def test_the_backends_of_a_compiled_run_are_those_of_any_run(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda run, **options: run)
    changes = (mixer("gru"), "training.batches=4")
    tiny(out, *changes, "training.compile=true")
    tiny(out.with_name("eager"), *changes)
    backends = [
        newest(folder).meta["surroundings"]["backends"]["recurrence"] for folder in (out, out.with_name("eager"))
    ]
    assert backends[0] == backends[1] != ["reference"]


@pytest.mark.slow
def test_another_machine(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(begun)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "ELSE")
    with pytest.raises(ValueError, match=r"bit for bit: instructions was \S+, is ELSE; go on with --allow-drift"):
        tiny(begun)
    assert rows(begun) == before
    messages: list[str] = []
    assert tiny(begun, allow_drift=True, say=messages.append).step == 9
    assert any(line.startswith("drift allowed: instructions was") for line in messages)
    tiny(begun, "training.batches=10")  # what the newest checkpoint says is what counts now


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "training.lr=0.002",
        "training.seed=1",
        "training.batch=8",
        "training.accumulate=2",
        "training.precision=bf16",
        "training.weight_decay=0.0",
        "training.clip=1.0",
        "model.dropout=0.0",
        "model.dim=16",
        "data.seed=1",
        "data.within_documents=true",
        "backends={lag_sum: direct}",
    ],
)
def test_another_setting(begun: Path, change: str) -> None:
    before = rows(begun)
    name = change.partition("=")[0]
    with pytest.raises(ValueError, match="holds a run of other settings") as caught:
        tiny(begun, change)
    message = str(caught.value)
    assert "\n" not in message
    assert (name if name.startswith(("training", "model")) else name.split(".")[0]) in message
    assert (rows(begun), saved(begun)) == (before, [3, 4])


@pytest.mark.slow
def test_another_text(begun: Path) -> None:
    with pytest.raises(ValueError, match="holds a run on another text, or by another tokenizer: it has changed"):
        tiny(begun, "data.source=stories:31:0")


@pytest.mark.slow
def test_what_does_not_change_a_step_may_change(whole: Whole, begun: Path) -> None:
    tiny(begun, "training.save_every=4", "training.evaluate_every=5")
    assert digests(begun) == digests(whole().run.folder)


@pytest.mark.slow
def test_the_same_text_elsewhere(tmp_path: Path, out: Path) -> None:
    text = "".join(f"A line {n * n} of no meaning, {n % 7} times.\n" for n in range(400))
    for name, batches in (("here.txt", 2), ("there.txt", 4)):
        (tmp_path / name).write_text(text)
        outcome = tiny(out, f"data.source={tmp_path / name}", "data.vocab=260", f"training.batches={batches}")
    assert outcome.step == 4


@pytest.mark.slow
def test_a_run_in_use(begun: Path) -> None:
    with lock(begun), pytest.raises(ValueError, match="is in use by"):
        tiny(begun)
    assert tiny(begun).step == 9


@pytest.mark.slow
def test_a_model_without_its_optimizer(begun: Path, tmp_path: Path) -> None:
    model, _ = stored.load(begun)
    stored.save(model, tmp_path / "alone")
    with pytest.raises(ValueError, match="other settings"):
        tiny(tmp_path / "alone")


def test_no_such_device(out: Path) -> None:
    with pytest.raises(ValueError, match="no device 'abacus' here"):
        tiny(out, "training.device=abacus")


def test_text_shorter_than_a_window(tmp_path: Path, out: Path) -> None:
    (tmp_path / "short.txt").write_text("too short for a window of this width\n")
    with pytest.raises(ValueError, match="the training text has"):
        tiny(out, f"data.source={tmp_path / 'short.txt'}", "model.context=64")
