"""Checkpoints in parts: all that a state_dict may hold, read whole or by part; every damage and every lie is named."""

import errno
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from seqloom.runs import checkpoint, manifest, shards
from seqloom.runs.checkpoint import Damaged
from tests.runs.parts import NAMES, equal_bits, group_of_one, reseal, save_parts, without_values, write_part
from tests.runs.saving import is_whole
from tests.runs.test_checkpoint import KINDS
from tests.training.running import damage

FILES = ("manifest.json", "meta.json", *NAMES)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_parts(tmp_path / "c", 7)


@pytest.fixture
def alone() -> Iterator[dist.ProcessGroup]:
    with group_of_one() as group:
        yield group


def write(folder: Path, step: int, tensors: shards.Named, group: dist.ProcessGroup, copy: bool = False) -> Path:
    with checkpoint.new_step(folder, step) as path:
        shards.write(path, step, shards.Parts(tensors, copy), {"step": step}, group)
    return folder / f"step_{step:08d}"


@pytest.mark.parametrize("copy", [False, True])
def test_every_kind_of_tensor(tmp_path: Path, alone: dist.ProcessGroup, copy: bool) -> None:
    result = checkpoint.load(write(tmp_path, 3, {"model": KINDS, "none": {}}, alone, copy))
    assert (result.step, result.meta, result.files) == (3, {"step": 3}, {})
    assert list(result.tensors["model"]) == list(KINDS)
    assert result.tensors["none"] == {}
    for name, tensor in KINDS.items():
        loaded = result.tensors["model"][name]
        assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape), name
        assert equal_bits(loaded, tensor), name


def test_a_divided_tensor_is_read_as_it_is_divided(tmp_path: Path, alone: dist.ProcessGroup) -> None:
    mesh = init_device_mesh("cpu", (1,))
    weight, step = torch.randn(5, 3), torch.tensor(4.0)
    divided = distribute_tensor(weight, mesh, [Shard(0)])
    path = write(tmp_path, 3, {"model": {"w": divided, "tied": divided}, "optimizer": {"step": step}}, alone)
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "meta.json", NAMES[0]]
    partial = checkpoint.load(path, whole=False)
    assert without_values(partial)
    read = checkpoint.read_parts(partial, {"model": {"w": torch.zeros_like(divided)}})
    own = read.tensors["model"]["w"]
    assert isinstance(own, DTensor)
    assert torch.equal(own.to_local(), weight)
    assert type(read.tensors["model"]["tied"]) is torch.Tensor
    assert torch.equal(read.tensors["model"]["tied"], weight)
    assert torch.equal(read.tensors["optimizer"]["step"], step)
    assert checkpoint.read_parts(read, {}) is read


def test_a_copy_does_not_change_with_the_tensors(alone: dist.ProcessGroup) -> None:
    weight = torch.zeros(3)
    copied, shared = shards.Parts({"model": {"w": weight}}, True), shards.Parts({"model": {"w": weight}}, False)
    weight += 1
    assert copied.stored["model.w"].tolist() == [0, 0, 0]
    assert shared.stored["model.w"].tolist() == [1, 1, 1]


def test_parts_of_two_processes_are_read_whole(saved: Path) -> None:
    assert is_whole(checkpoint.load(saved))
    assert without_values(checkpoint.load(saved, whole=False, verify=False))
    found = checkpoint.peek(saved.parent)
    assert found is not None
    assert is_whole(found)


def test_a_checkpoint_of_one_process_is_read_at_once(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, {"model": {"w": torch.ones(3)}}, {})
    assert not without_values(checkpoint.load(path, whole=False))
    assert "shapes" not in (path / "meta.json").read_text()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("how", ["bit", "half", "gone"])
def test_damage_is_found_and_the_step_before_is_taken(saved: Path, file: str, how: str) -> None:
    save_parts(saved.parent, 8)
    damage(saved.parent / "step_00000008" / file, how)
    with pytest.raises(Damaged, match=file):
        checkpoint.load(saved.parent / "step_00000008")
    message: list[str] = []
    result = checkpoint.newest(saved.parent, message.append, whole=False)
    assert result is not None
    assert result.step == 7
    assert "moved to damaged-step_00000008" in message[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_counts(saved: Path, name: str) -> None:
    raw = (saved / name).read_bytes()
    for place in range(0, len(raw), 37):
        (saved / name).write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(Damaged, match=name):
            checkpoint.load(saved, whole=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_step(saved: Path, name: str) -> None:
    other = save_parts(saved.parent, 8)
    shutil.copyfile(other / name, saved / name)
    with pytest.raises(Damaged, match=f"{name} is altered"):
        checkpoint.load(saved)


def _change(content: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        described = json.loads((path / "meta.json").read_text())
        content(described["groups"]["model"])
        (path / "meta.json").write_text(json.dumps(described))

    return change


def _second(name: str, offset: list[Any], values: torch.Tensor, info: str | None = None) -> Callable[[Path], None]:
    return lambda path: write_part(path / NAMES[1], {name: (offset, values)}, info)


ROWS = torch.ones(4, 8)
LIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file less": (lambda path: (path / NAMES[1]).unlink(), "do not make up a tensor of shape"),
    "a gap": (_second("model.w", [5, 0], ROWS), "the parts of model.w do not make up a tensor of shape \\(8, 8\\)"),
    "an overlap": (_second("model.w", [3, 0], ROWS), "the parts of model.w do not make up"),
    "the same part": (_second("model.w", [0, 0], ROWS), "the parts of model.w do not make up"),
    "too much": (_second("model.w", [4, 0], torch.ones(5, 8)), "the parts of model.w do not make up"),
    "a row of terabytes": (_second("model.w", [2**60, 0], ROWS), "the parts of model.w do not make up"),
    "another width": (_second("model.w", [4, 0], torch.ones(4, 7)), "the parts of model.w do not make up"),
    "columns": (_second("model.w", [4, 1], ROWS), "the parts of model.w do not make up"),
    "a negative row": (_second("model.w", [-4, 0], ROWS), "the parts of model.w do not make up"),
    "an offset that is a word": (_second("model.w", ["4", 0], ROWS), "cannot be read as tensors"),
    "offsets that are none": (_second("model.w", [4, 0], ROWS, "7"), "cannot be read as tensors"),
    "offsets of another": (_second("model.w", [4, 0], ROWS, '{"x": 1}'), "cannot be read as tensors"),
    "offsets that are no JSON": (_second("model.w", [4, 0], ROWS, "[[[["), "cannot be read as tensors"),
    "a pickle": (lambda path: (path / NAMES[1]).write_bytes(pickle.dumps([1])), "is not a safetensors file"),
    "a longer header": (
        lambda path: (path / NAMES[1]).write_bytes((2**62).to_bytes(8, "little")),
        "its header would have",
    ),
    "another name": (_change(lambda model: model["tensors"].append("x")), "has no tensor model.x"),
    "no shape": (_change(lambda model: model["shapes"].pop("w")), "has no tensor model.w"),
    "another shape": (_change(lambda model: model["shapes"].update(w=[9, 8])), "the parts of model.w do not make up"),
    "a shape of terabytes": (_change(lambda model: model["shapes"].update(w=[2**70])), "the parts of model.w do not"),
    "a negative shape": (_change(lambda model: model["shapes"].update(w=[-8, 8])), "does not describe a checkpoint"),
    "said to be complex": (_change(lambda model: model["complex"].append("w")), "do not make up a tensor"),
    "integers said to be complex": (
        _change(lambda model: (model["shapes"].update(b=[]), model["complex"].append("b"))),
        "the parts of model.b",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_is_sealed(saved: Path, lie: str) -> None:
    change, message = LIES[lie]
    change(saved)
    reseal(saved)
    with pytest.raises(Damaged, match=message) as raised:
        checkpoint.load(saved)
    assert "\n" not in str(raised.value)


def test_a_file_that_the_manifest_does_not_name(saved: Path) -> None:
    shutil.copyfile(saved / NAMES[1], saved / "shard-00003-model-00001-of-00001.safetensors")
    with pytest.raises(Damaged, match=r"shard-00003-model-00001-of-00001\.safetensors is a file that manifest\.json"):
        checkpoint.load(saved)


def test_a_file_that_changes_while_it_is_read(saved: Path) -> None:
    partial = checkpoint.load(saved, whole=False)
    (saved / NAMES[1]).write_bytes(b"")
    with pytest.raises(Damaged, match="cannot be read as tensors"):
        checkpoint.read_parts(partial, {})


def test_a_disk_that_is_full(tmp_path: Path, alone: dist.ProcessGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1, {"model": {"w": torch.ones(3)}}, alone)

    def refuse(*values: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileSystem, "create_stream", refuse)
    message = r"^\[Errno 28\] cannot save step 2 in .*: No space left on device \(rank 0\); the earlier checkpoints are"
    with pytest.raises(OSError, match=message):
        write(tmp_path, 2, {"model": {"w": torch.ones(3)}}, alone)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000001"]


def test_processes_without_a_common_folder(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=f"{NAMES[1]}, which another process wrote, is not there: all need the same folder"
    ):
        manifest.seal(tmp_path, {NAMES[1]: {"sha256": "0", "size": 1}})
    assert not list(tmp_path.iterdir())


def test_a_fault_of_our_own_is_not_hidden(
    tmp_path: Path, alone: dist.ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileSystem, "create_stream", lambda *values: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path, 2, {"model": {"w": torch.ones(3)}}, alone)


def test_nothing_is_pickled(tmp_path: Path, alone: dist.ProcessGroup) -> None:
    path = write(tmp_path, 1, {"model": {"w": torch.ones(3)}}, alone)
    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json"}
    assert not [file for file in path.iterdir() if file.name.startswith(".")]
