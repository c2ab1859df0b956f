"""What the environment says of the processes that were launched together; what no launcher sets is one error."""

from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from seqloom.cli import command
from seqloom.core import launch

TWO = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
WRONG = {
    "RANK": ("x", "", "-1", "2", "1.0", "٣", "9" * 5000),
    "WORLD_SIZE": ("x", "", "0", "-2", "1e3", "9" * 5000),
    "LOCAL_RANK": ("x", "", "-1", "2"),
    "MASTER_PORT": ("x", "-1", "65536"),
}


@pytest.fixture(autouse=True)
def _two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)


def test_as_torchrun_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    launch.require_address()
    assert (launch.size(), launch.rank(), launch.local_rank()) == (2, 1, 0)
    monkeypatch.delenv("LOCAL_RANK")
    assert launch.local_rank() == 0
    monkeypatch.delenv("WORLD_SIZE")
    assert (launch.size(), launch.rank(), launch.local_rank()) == (1, 0, 0), "without a launcher"


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_no_launcher_sets(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"the environment's {name} is '.*', not a number from") as raised:
        (launch.size(), launch.rank(), launch.local_rank(), launch.require_address())
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT"])
def test_no_place_to_meet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(ValueError, match=f"the environment has no {name}: start several processes with torchrun"):
        launch.require_address()


@pytest.mark.parametrize(("name", "value"), [("RANK", "x"), ("WORLD_SIZE", "0"), ("WORLD_SIZE", "x")])
def test_a_command_reports_it_in_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert command(["train", "tiny", "--out", "runs/never"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("seqloom: the environment's ")


def test_a_failure_stands_where_torchrun_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    launch.report_failure("seqloom: a line")
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=2, error_file=str(path))
    assert failure.message["message"] == "seqloom: a line"
