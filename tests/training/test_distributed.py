"""Several processes train one model: the same losses as one process, the same bits as before, one message."""

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import HashStore

from seqloom.core import launch
from seqloom.core.launch import Ended
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.dropout import Dropout, share_rows
from seqloom.training import failures
from seqloom.training.distributed import join_group, require_even
from seqloom.training.failures import Lost, Reports, lost_by
from seqloom.training.group import Group
from seqloom.training.mesh import Mesh
from seqloom.training.settings import resolve
from tests.training.balancing import BalancedConfig
from tests.training.running import mixer, newest, rows, same, tiny
from tests.training.stepping import CONTEXT, VOCAB
from tests.training.together import run, steps, three_steps, together

LONG = ("training.batches=50", "training.save_every=50", "training.evaluate_every=0")
DOUBLE = "training.precision=float64"
RUNS = {
    "double": (*LONG, DOUBLE, mixer("attention")),
    "single": (*LONG, mixer("attention")),
    "pieces": (DOUBLE, mixer("attention"), "training.accumulate=2", "training.clip=0.5"),
    "packed": (DOUBLE, mixer("attention"), "data.packed=true", "model.dropout=0.0", "training.accumulate=2"),
}
PROBE = (DOUBLE, mixer("linear"), "model.dropout=0.1", "training.objective.kind=probe", "training.batches=3")
ENCODER = (
    *("model.kind=encoder", "training.objective.kind=masked_token"),
    mixer("attention"),
    DOUBLE,
    "training.batch=6",
)
CUT = (DOUBLE, mixer("attention"))
CLOSE = {"single": 1e-5}
"""largest difference of a loss between one process and two; 1e-10 for runs in float64"""
OTHERS = {
    "settings": ("training.lr=0.01", "training.lr is 0.001 there and 0.01 here"),
    "data": ("data.source=stories:31:0", "data.identity"),
    "backends": ("backends.attention=reference", "backends.attention"),
}


def balanced() -> Decoder:
    """A model with auxiliary losses, statistics, and a parameter that no step uses."""
    torch.manual_seed(7)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.3, "dropout": 0.0}
    model = Decoder(DecoderConfig(**sizes, mixer=BalancedConfig(weight=0.5))).double().train()
    model.register_parameter("idle", nn.Parameter(torch.ones(3, dtype=torch.float64)))
    return model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """Every job that takes two processes, in one pair of them; and the messages that ended some."""
    folder = tmp_path_factory.mktemp("together")
    tiny(folder / "changing", "training.batches=2", *CUT)  # one process, then two, then one again
    jobs = {
        **{name: run(folder / name, *changes) for name, changes in RUNS.items()},
        "extras": steps(folder / "extras.pt", balanced, DOUBLE, "training.accumulate=2"),
        "cut": run(folder / "cut", "training.batches=4", *CUT),
        "whole": run(folder / "whole", *CUT),
        "goes on": run(folder / "cut", *CUT),
        "changing": run(folder / "changing", "training.batches=6", *CUT),
        "uneven": run(folder / "uneven", "training.batch=12", "training.accumulate=4"),
        **{name: run(folder / name, mixer("attention"), only={1: (change,)}) for name, (change, _) in OTHERS.items()},
        "in use": run(folder / "whole", *CUT, "training.lr=0.01"),
    }
    messages = together([*jobs.values()], folder / "messages")
    return folder, dict(zip(jobs, messages, strict=True))


Trained = tuple[Path, dict[str, list[str]]]


def losses(folder: Path) -> list[float]:
    return [row.get("loss", row.get("held_out")) for row in rows(folder)]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_losses_are_those_of_one_process(trained: Trained, tmp_path: Path, name: str) -> None:
    folder, messages = trained
    assert messages[name] == ["", ""]
    tiny(tmp_path, *RUNS[name], say=lambda line: None)
    actual, expected = losses(folder / name), losses(tmp_path)
    assert len(actual) == len(expected)
    differences = [abs(one - two) for one, two in zip(actual, expected, strict=True)]
    assert max(differences) < CLOSE.get(name, 1e-10)


@pytest.mark.slow
def test_a_probe_and_three_processes(tmp_path: Path) -> None:
    """Questions differ in number from row to row; with three processes the order of a sum would show."""
    changes = (DOUBLE, mixer("attention"), "training.batch=6")
    jobs = [
        run(tmp_path / "probe", *PROBE, "training.batch=6"),
        run(tmp_path / "encoder", *ENCODER),
        run(tmp_path / "whole", *changes),
        run(tmp_path / "cut", *changes, "training.batches=4"),
        run(tmp_path / "cut", *changes),
    ]
    assert together(jobs, tmp_path / "messages", 3) == [["", "", ""]] * len(jobs)
    tiny(tmp_path / "one", *PROBE, "training.batch=6", say=lambda line: None)
    assert losses(tmp_path / "probe") == pytest.approx(losses(tmp_path / "one"), abs=1e-10)
    tiny(tmp_path / "one encoder", *ENCODER, say=lambda line: None)
    assert losses(tmp_path / "encoder") == pytest.approx(losses(tmp_path / "one encoder"), abs=1e-10)
    same(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.slow
def test_extras_and_parameters_without_gradients(trained: Trained, tmp_path: Path) -> None:
    folder, messages = trained
    assert messages["extras"] == ["", ""]
    three_steps(tmp_path / "one.pt", balanced, DOUBLE, "training.accumulate=2")
    actual, expected = torch.load(folder / "extras.pt"), torch.load(tmp_path / "one.pt")
    assert actual["losses"] == pytest.approx(expected["losses"], abs=1e-10)
    for name, value in expected["weights"].items():
        torch.testing.assert_close(actual["weights"][name], value, rtol=0, atol=1e-10)


def test_a_run_resumes_bit_for_bit(trained: Trained) -> None:
    folder, messages = trained
    assert messages["goes on"] == messages["cut"] == ["", ""]
    same(folder / "cut", folder / "whole")


@pytest.mark.slow
def test_a_run_goes_on_with_another_number(trained: Trained) -> None:
    folder, messages = trained
    assert messages["changing"] == ["", ""]
    assert newest(folder / "changing").step >= 6
    tiny(folder / "changing", *CUT, say=lambda line: None)
    actual = {row["step"]: row["loss"] for row in rows(folder / "changing") if "loss" in row}
    expected = {row["step"]: row["loss"] for row in rows(folder / "whole") if "loss" in row}
    assert actual == pytest.approx(expected, abs=1e-10)


def test_a_batch_that_they_cannot_share(trained: Trained) -> None:
    why = "2 processes cannot share training.batch=12 in 4 pieces of 3 evenly: choose a multiple of 8"
    assert trained[1]["uneven"] == [why, why]
    assert not (trained[0] / "uneven").exists()


@pytest.mark.parametrize("name", OTHERS)
def test_another_rank_is_rejected_before_the_first_step(trained: Trained, name: str) -> None:
    folder, messages = trained
    first, second = messages[name]
    assert first.startswith("rank 1 differs from rank 0: ")
    assert OTHERS[name][1] in first
    assert second == "another rank has the message"
    assert not (folder / name / "metrics.jsonl").exists()


def test_what_rank_0_rejects_ends_all(trained: Trained) -> None:
    first, second = trained[1]["in use"]
    assert "training.lr is 0.001 there and 0.01 here" in first
    assert second == "another rank has the message"


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_rows_of_all_ranks_drop_what_one_process_drops(ranks: int) -> None:
    layer, x = Dropout(0.3).train(), torch.rand(6, 5, 7)
    torch.manual_seed(3)
    whole = layer(x)
    parts = []
    for rank, part in enumerate(x.chunk(ranks)):
        torch.manual_seed(3)
        with share_rows(layer, rank, ranks):
            parts.append(layer(part))
    assert torch.equal(torch.cat(parts), whole)
    assert (layer.rank, layer.ranks) == (0, 1)


@pytest.mark.parametrize("ranks", [2, 3])
def test_torchs_own_dropout_is_shared_alike(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    test_the_rows_of_all_ranks_drop_what_one_process_drops(ranks)


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        here = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        monkeypatch.setattr(os, "environ", {**os.environ, **here})
        message = r"the 2 processes did not find each other \(.*port: \d+"
        with pytest.raises(ValueError, match=message), join_group(resolve("tiny").training):
            pass


def test_one_process_sends_nothing() -> None:
    config = resolve("tiny").training
    with join_group(config) as group:
        assert (group.rank, group.size, group.main) == (0, 1, True)
        tensor = torch.ones(2)
        assert group.sum({"a": tensor})["a"] is tensor
        assert group.gather([1.0]) == [[1.0]]
        assert group.of_main(lambda: 3) == 3
        assert Group().rows({"ids": tensor})["ids"] is tensor


@pytest.mark.parametrize(("changes", "size"), [(("training.batch=12",), 5), (("training.accumulate=4",), 8)])
def test_rows_that_do_not_divide(changes: tuple[str, ...], size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} processes cannot share"):
        require_even(resolve("tiny", changes).training, size)


CAUSES: dict[str, tuple[dict[int, dict[str, Any]], BaseException, str]] = {
    "the other died": ({}, Lost(), "rank 1 died; the same command"),
    "the other stalled": ({}, Lost(60.0), "rank 1 did not answer for 60 s; the same command"),
    "the other failed": ({1: {"lost": False, "seconds": 0, "text": "no room"}}, Lost(), "rank 1: no room"),
    "the line broke": ({1: {"lost": True, "seconds": 0, "text": ""}}, Lost(), "the connection between"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_lowest_remaining_rank_reports_the_reason(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, error, message = CAUSES[cause]
    monkeypatch.setattr(failures, "GRACE", 0.0)
    monkeypatch.setattr(failures.signal, "signal", lambda *_: None)
    store = dist.HashStore()
    for rank, report in before.items():
        store.set(f"failure/{rank}", json.dumps(report))
    ending = Reports(store, 0, 2).ending(error)
    assert isinstance(ending, Ended)
    assert str(ending).startswith(message)
    assert str(Reports(store, 1, 2).ending(Lost())) == ""


def test_a_process_that_waits_inside_torch_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "GRACE", 0.5)
    monkeypatch.setattr(failures, "LOOK", 0.01)
    monkeypatch.setattr(failures.signal, "signal", lambda *_: None)
    store = dist.HashStore()
    with Reports(store, 2, 3).answers():
        ending = Reports(store, 0, 3).ending(Lost())
    assert str(ending).startswith("rank 1 died;")


GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/{}"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (RuntimeError(GLOO.format("pair.cc:537] Read error: Connection reset by peer")), 0.0),
        (RuntimeError(GLOO.format("unbound_buffer.cc:81] Timed out waiting 5000ms for recv")), 9.0),
        (dist.DistBackendError("NCCL error"), 0.0),
    ],
)
def test_an_error_of_torchs_own_messages_is_a_lost_rank(error: RuntimeError, seconds: float) -> None:
    lost = lost_by(error, 9.0)
    assert lost is not None
    assert lost.seconds == seconds


@pytest.mark.parametrize("error", [RuntimeError("shapes do not fit"), ValueError(GLOO), KeyboardInterrupt()])
def test_other_errors_are_not(error: BaseException) -> None:
    assert lost_by(error, 9.0) is None


def test_a_rank_reports_its_own_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "GRACE", 0.0)
    monkeypatch.setattr(failures.signal, "signal", lambda *_: None)
    for error in (ValueError("no room"), KeyError("a fault of our own"), KeyboardInterrupt()):
        assert Reports(dist.HashStore(), 0, 2).ending(error) is error


def test_a_line_names_the_rank_unless_all_make_the_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "RANK_0_FIRST", 0.0)
    assert launch.name_rank("no", ValueError()) == "no"
    monkeypatch.setattr(os, "environ", {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"})
    assert (launch.rank(), launch.size(), launch.local_rank()) == (1, 2, 1)
    assert launch.name_rank("no", ValueError()) == "rank 1: no"
    assert launch.name_rank("no", Ended("no")) == "no"


def test_the_first_process_of_a_machine_precedes_its_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks 0 and 1 on one machine, 2 and 3 on another: each begins after 0, and 3 after 2 as well."""

    class Waits(Exception):
        pass

    def wait(seconds: float) -> None:
        raise Waits

    def begin(rank: int) -> None:
        monkeypatch.setattr("seqloom.core.launch.local_rank", lambda: rank % 2)
        with Group(store, Mesh(rank, 4), 1.0).main_first():
            done.append(rank)

    monkeypatch.setattr("seqloom.training.group.time.sleep", wait)
    store = HashStore()
    done: list[int] = []
    for rank in (1, 2, 3):
        with pytest.raises(Waits):
            begin(rank)
    begin(0)
    with pytest.raises(Waits):
        begin(3)
    for rank in (2, 3, 1):
        begin(rank)
    assert done == [0, 2, 3, 1]


def test_a_process_is_waited_for_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the limit, while it is in its block; no longer than the limit where it is not."""

    def prepare() -> None:
        with Group(store, Mesh(0, 2), 1.0).main_first():
            entered.set()
            time.sleep(2.0)
            done.append(0)

    monkeypatch.setattr("seqloom.core.launch.local_rank", lambda: 0)
    monkeypatch.setattr("seqloom.training.group.BEAT", 0.05)
    store, done, entered = HashStore(), list[int](), threading.Event()
    first = threading.Thread(target=prepare, daemon=True)
    first.start()
    assert entered.wait(60)
    with Group(store, Mesh(1, 2), 1.0).main_first():
        done.append(1)
    first.join()
    assert done == [0, 1]
    with pytest.raises(Lost), Group(HashStore(), Mesh(1, 2), 0.1).main_first():
        pass
