"""What is saved is loaded, for all that a state_dict may hold; saves replace, prune and clean up safely."""

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seqloom.runs import checkpoint, durable, manifest, steps
from seqloom.runs.tensors import _STORED, storable
from tests.runs.saving import groups, is_whole, save

TIED = torch.randn(3, 4)
BIG = torch.randn(10, 10)
KINDS: dict[str, Tensor] = {
    "bool": torch.tensor([True, False]),
    "int64": torch.tensor([-(2**62), 3]),
    "float64": torch.randn(2, 3, dtype=torch.float64),
    "bfloat16": torch.randn(2, 3).bfloat16(),
    "zero-dim": torch.tensor(3.5),
    "zero-dim int": torch.tensor(2**40),
    "empty": torch.empty(0),
    "empty shape": torch.empty(2, 0, 3, dtype=torch.int32),
    "transposed": TIED.T,
    "strided": BIG[::2, 1::3],
    "expanded": torch.randn(1, 3).expand(4, 3),
    "slice": BIG[2:4],
    "other slice": BIG[3:5],
    "tied": TIED,
    "tied again": TIED,
    "nan": torch.tensor([float("nan"), -float("inf"), -0.0]),
    "parameter": torch.nn.Parameter(torch.randn(2)),
    "graph": torch.randn(2, requires_grad=True) * 2,
    "complex": torch.randn(3, 2, dtype=torch.complex64),
    "complex128": torch.randn(3, dtype=torch.complex128),
    "complex zero-dim": torch.tensor(1 + 2j),
    "complex empty": torch.empty(0, dtype=torch.complex64),
    "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
    "imaginary of a conjugate": torch.randn(3, dtype=torch.complex64).conj().imag,
    "negated view": torch._neg_view(torch.randn(3)),
    "complex view": torch.randn(4, 4, dtype=torch.complex64).T[1:],
    "name with / and ü": torch.ones(1),
}


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    result = checkpoint.load(checkpoint.save(tmp_path, 3, {"model": KINDS, "none": {}}, {}))
    assert list(result.tensors["model"]) == list(KINDS)
    assert result.tensors["none"] == {}
    for name, tensor in KINDS.items():
        loaded = result.tensors["model"][name]
        assert (loaded.dtype, loaded.shape) == (tensor.dtype, tensor.shape), name
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        assert torch.equal(_bits(loaded), _bits(plain)), name
    pointers = [tensor.data_ptr() for tensor in result.tensors["model"].values() if tensor.numel()]
    assert len(set(pointers)) == len(pointers)


@pytest.mark.parametrize(
    ("error", "cause"),
    [(OSError(28, "No space left on device", "/x"), "No space left on device"), (OSError("gone"), "gone")],
)
def test_why_a_save_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, cause: str) -> None:
    """The reason of the system, or the text of an error that has none."""

    def seal(folder: Path) -> None:
        raise error

    monkeypatch.setattr(manifest, "seal", seal)
    with pytest.raises(OSError, match="cannot save step 3") as raised:
        checkpoint.save(tmp_path, 3, {"model": {}}, {})
    assert str(raised.value).endswith(
        f"cannot save step 3 in {tmp_path}: {cause}; the earlier checkpoints are untouched"
    )
    assert raised.value.errno == (error.errno or 0)


@pytest.mark.parametrize("dtype", sorted(_STORED - {torch.complex32}, key=str), ids=str)
def test_every_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    bits = torch.arange(64, dtype=torch.uint8)
    tensor = bits.bool() if dtype == torch.bool else bits.view(dtype)
    loaded = checkpoint.load(checkpoint.save(tmp_path, 0, {"a": {"x": tensor}}, {})).tensors["a"]["x"]
    assert loaded.dtype == dtype
    assert torch.equal(_bits(loaded), _bits(tensor))


def test_saving_changes_nothing_of_the_caller(tmp_path: Path) -> None:
    tied = torch.randn(3, requires_grad=True)
    given = {"model": {"a": tied, "b": tied}}
    meta = {"betas": (0.9, 0.99), "best": None, "words": "ü"}
    result = checkpoint.load(checkpoint.save(tmp_path, 0, given, meta))
    assert given["model"]["a"] is given["model"]["b"] is tied
    assert tied.requires_grad
    assert result.meta == {"betas": [0.9, 0.99], "best": None, "words": "ü"}


def test_a_real_optimizer_goes_round(tmp_path: Path) -> None:
    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimizer.step()
    held = optimizer.state_dict()["state"]
    moments = {f"{index}.{name}": tensor for index, state in held.items() for name, tensor in state.items()}
    result = checkpoint.load(checkpoint.save(tmp_path, 1, {"model": layer.state_dict(), "optimizer": moments}, {}))
    assert all(torch.equal(result.tensors["optimizer"][name], tensor) for name, tensor in moments.items())
    layer.load_state_dict(result.tensors["model"])


def test_loaded_tensors_outlive_the_file(tmp_path: Path) -> None:
    result = checkpoint.load(save(tmp_path, 5))
    with (result.path / "model.safetensors").open("r+b") as file:
        file.truncate(0)
    result.tensors["model"]["w"] += 1
    assert result.tensors["model"]["w"].eq(6).all()


def test_files_are_copied(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    result = checkpoint.load(checkpoint.save(tmp_path / "c", 1, groups(1), {}, {"tokenizer.json": tmp_path / "given"}))
    assert {name: path.read_text() for name, path in result.files.items()} == {"tokenizer.json": "x"}


REFUSED = [
    ({"m": {"a": "text"}}, {}, {}, "m.a is a str"),
    ({"m": {"a": torch.empty(2, device="meta")}}, {}, {}, "without values"),
    ({"m": {"a": torch.eye(2).to_sparse()}}, {}, {}, "cannot hold"),
    ({}, {"best": float("inf")}, {}, "meta.best is inf"),
    ({}, {"state": {0: 1}}, {}, "meta.state has the key 0"),
    ({}, {"a": [torch.ones(1)]}, {}, "meta.a.0 is a Tensor"),
    ({"../up": {}}, {}, {}, "cannot hold a file named"),
    ({}, {}, {"meta.json": Path("x")}, "meta.json"),
    ({}, {}, {"manifest.json": Path("x")}, "manifest.json"),
    ({"m": {}}, {}, {"m.safetensors": Path("x")}, "m.safetensors"),
    ({}, {}, {"a/b": Path("x")}, "a/b"),
]


@pytest.mark.parametrize(("tensors", "meta", "files", "why"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_refused_before_anything_is_written(tmp_path: Path, tensors: dict, meta: dict, files: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checkpoint.save(tmp_path / "c", 1, tensors, meta, files)
    assert not (tmp_path / "c").exists()
    with pytest.raises(ValueError, match="0 or more"):
        checkpoint.save(tmp_path / "c", -1, {}, {})


def test_the_same_step_again(tmp_path: Path) -> None:
    save(tmp_path, 1)
    checkpoint.save(tmp_path, 1, {"model": {"w": torch.ones(2)}}, {"second": True})
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000001"]
    result = checkpoint.newest(tmp_path)
    assert result is not None
    assert result.meta == {"second": True}
    assert list(result.tensors) == ["model"]


def test_half_replaced_is_given_its_name_back(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2).rename(tmp_path / "replaced-step_00000002")
    seen = checkpoint.peek(tmp_path)
    assert seen is not None
    assert is_whole(seen)
    assert seen.step == 2
    result = checkpoint.newest(tmp_path)
    assert result is not None
    assert result.step == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000001", "step_00000002"]


def test_fully_replaced_loses_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 2).rename(tmp_path / "replaced-step_00000002")
    checkpoint.save(tmp_path, 2, groups(2), {"step": 2, "second": True})
    save(tmp_path / "x", 2).rename(tmp_path / "replaced-step_00000002")
    (tmp_path / "x").rmdir()
    result = checkpoint.newest(tmp_path)
    assert result is not None
    assert result.meta["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000002"]


@pytest.mark.slow
def test_leftovers_of_the_dead_go_and_of_the_living_stay(tmp_path: Path) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    save(tmp_path, 1)
    for pid in (dead, os.getpid(), os.getppid()):
        (tmp_path / f"step_00000002.tmp-{pid}").mkdir()
        (tmp_path / f"step_00000002.tmp-{pid}" / "meta.json").write_text("{}")
    checkpoint.peek(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    checkpoint.newest(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step_00000001", f"step_00000002.tmp-{os.getppid()}"}


def test_where_signal_0_does_not_ask_leftovers_stay_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows it would end the process."""
    monkeypatch.setattr(durable, "ASKS", False)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    save(tmp_path, 1)
    for pid in (os.getpid(), 999999998, 999999999):
        (tmp_path / f"step_00000002.tmp-{pid}").mkdir()
    os.utime(tmp_path / "step_00000002.tmp-999999998", (0, 0))
    checkpoint.newest(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step_00000001", "step_00000002.tmp-999999999"}


def test_cleaning_up_in_the_middle_of_our_own_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = manifest.seal

    def clean_up_first(folder: Path) -> None:
        assert checkpoint.newest(tmp_path) is None
        seal(folder)

    monkeypatch.setattr(manifest, "seal", clean_up_first)
    assert is_whole(checkpoint.load(save(tmp_path, 4)))


PRUNED = [
    (2, None, [1, 2, 3], [10, 100_000_000]),
    (2, 2, [1, 3], [2, 10, 100_000_000]),
    (1, 100_000_000, [1, 2, 3, 10], [100_000_000]),
    (2, 77, [1, 2, 3], [10, 100_000_000]),
    (9, None, [], [1, 2, 3, 10, 100_000_000]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("keep_last", "best", "deleted", "left"), PRUNED)
def test_prune(tmp_path: Path, keep_last: int, best: int | None, deleted: list[int], left: list[int]) -> None:
    for step in (100_000_000, 2, 1, 10, 3):
        save(tmp_path, step)
    (tmp_path / "step_5").mkdir()
    assert checkpoint.prune(tmp_path, keep_last, best) == deleted
    assert list(steps.whole(tmp_path)) == left
    assert len(list(tmp_path.iterdir())) == len(left) + 1


def test_prune_keeps_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        checkpoint.prune(tmp_path, keep_last=0)
    assert checkpoint.prune(tmp_path / "none") == []


def test_prune_takes_the_name_before_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "discard", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.prune(tmp_path, keep_last=1)
    monkeypatch.undo()
    assert list(steps.whole(tmp_path)) == [3]
    checkpoint.newest(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000003"]


def _bits(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor).view(torch.uint8) if tensor.is_complex() else tensor.reshape(-1).view(torch.uint8)


def test_a_plain_tensor_is_not_copied() -> None:
    plain, view = torch.ones(3), torch.ones(3, 2)
    stored, _ = storable("m", {"plain": plain, "view": view.T, "again": plain})
    assert stored["plain"].data_ptr() == plain.data_ptr()
    assert stored["view"].is_contiguous()
    assert stored["again"].data_ptr() != plain.data_ptr()


def test_all_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given").write_text("x")
    synced: set[int] = set()
    waiting: list[str] = []
    fsync, put = os.fsync, steps.put

    def noted(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        fsync(file)

    def looked(temporary: Path, final: Path) -> None:
        waiting.extend(path.name for path in (temporary, *temporary.iterdir()) if path.stat().st_ino not in synced)
        put(temporary, final)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(steps, "put", looked)
    result = checkpoint.save(tmp_path / "c", 1, groups(1), {}, {"tokenizer.json": tmp_path / "given"})
    assert len(list(result.iterdir())) >= 4
    assert waiting == []
