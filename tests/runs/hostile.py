"""Malicious run folders: each has valid digests, as anybody can compute them."""

import json
import os
import pickle
import shutil
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from seqloom.runs import manifest
from seqloom.runs.layout import Run, identity, seal_settings

STEP = "step_00000000"
TERABYTE = 2**40
DEEP = b"[" * 200_000 + b"]" * 200_000
Wreck = Callable[[Path], object]


class _Code:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("/tmp/seqloom-ran-code-of-a-pickle",))


def checkpoint(run: Path) -> Path:
    """The folder of the run's newest checkpoint."""
    return max((run / "checkpoints").iterdir())


def seal(run: Path, change: Callable[[dict[str, Any]], object] = lambda files: None) -> None:
    """Writes the checkpoint's manifest again, over what is there and with a change."""
    folder = checkpoint(run)
    (folder / manifest.NAME).unlink(missing_ok=True)
    files: dict[str, Any] = {
        path.name: {"sha256": sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
        for path in folder.iterdir()
        if path.is_file() and path.stat().st_size < TERABYTE
    }
    change(files)
    (folder / manifest.NAME).write_bytes(manifest._seal_body({"files": files, "format": 1}))


def settings(change: Callable[[dict[str, Any]], object]) -> Wreck:
    """Other settings, and a checkpoint that says to be theirs."""

    def wreck(run: Path) -> None:
        values = Run(run).settings
        change(values)
        (run / "config.json").write_bytes(seal_settings(values))
        meta(lambda message: message["meta"].update(run=identity(values)))(run)

    return wreck


def meta(change: Callable[[dict[str, Any]], object]) -> Wreck:
    """Another meta.json."""

    def wreck(run: Path) -> None:
        path = checkpoint(run) / "meta.json"
        written = json.loads(path.read_bytes())
        change(written)
        path.write_text(json.dumps(written))
        seal(run)

    return wreck


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Wreck:
    """Other weights, their names in meta.json as they were."""

    def wreck(run: Path) -> None:
        path = checkpoint(run) / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path)
        seal(run)

    return wreck


def weights(content: bytes) -> Wreck:
    """Another file of weights."""

    def wreck(run: Path) -> None:
        (checkpoint(run) / "model.safetensors").write_bytes(content)
        seal(run)

    return wreck


def listed(name: str, size: int = 1) -> Wreck:
    """A manifest that names one more file."""
    return lambda run: seal(run, lambda files: files.update({name: {"sha256": "0" * 64, "size": size}}))


def replaced(name: str, odd: Callable[[Path], object]) -> Wreck:
    """Another kind of file instead of a file or a folder."""

    def wreck(run: Path) -> None:
        path = run / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        odd(path)

    return wreck


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(TERABYTE)


def _terabytes(run: Path) -> None:
    path = checkpoint(run) / "model.safetensors"
    _hole(path)
    seal(run, lambda files: files.update({path.name: {"sha256": "0" * 64, "size": TERABYTE}}))


def _socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # a socket's path has at most 108 characters
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.chdir(before)


def _outside(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _moved(run: Path) -> None:
    shutil.move(run / "checkpoints", run.parent / f"{run.name}-elsewhere")
    (run / "checkpoints").symlink_to(run.parent / f"{run.name}-elsewhere")


def _header(length: int, text: bytes = b"") -> bytes:
    return length.to_bytes(8, "little") + text + b" " * 64


FILES = ("config.json", "tokenizer.json", f"checkpoints/{STEP}/manifest.json", f"checkpoints/{STEP}/model.safetensors")
ODD: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "outside": _outside,
    "terabyte": _hole,
    "deep": lambda path: path.write_bytes(DEEP),
}

WRECKS: dict[str, tuple[Wreck, str]] = {
    "weights of a terabyte": (_terabytes, "needs at least 1.0 TiB of memory"),
    "a header of 2^62 bytes": (weights(_header(2**62)), "not a safetensors file: its header would have 4,611"),
    "a header of 2^64-1 bytes": (weights(_header(2**64 - 1)), "not a safetensors file: its header"),
    "a header that is no JSON": (weights(_header(8, b"[[[[[[[[")), "not a safetensors file"),
    "no header": (weights(b"abc"), "not a safetensors file"),
    "a tensor of terabytes": (
        weights(_header(70, b'{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,64]}}   ')),
        "not a safetensors file",
    ),
    "a pickle": (weights(pickle.dumps(_Code())), "not a safetensors file"),
    "a torch pickle": (weights(b"PK\x03\x04" + b"\0" * 100), "not a safetensors file"),
    "a tensor missing": (tensors(lambda held: held.pop("head.weight")), "has no tensor 'head.weight'"),
    "a tensor missing, meta.json too": (
        lambda run: (
            tensors(lambda held: held.pop("head.weight"))(run),
            meta(lambda said: said["groups"]["model"]["tensors"].remove("head.weight"))(run),
        ),
        "does not fit the model: head.weight is absent there",
    ),
    "a tensor of another type": (
        tensors(lambda held: held.update({"head.weight": held["head.weight"].to(torch.complex64).real.double()})),
        "does not fit the model: head.weight is (300, 8) torch.float64 there and (300, 8) torch.float32 here",
    ),
    "a tensor said to be complex": (
        meta(lambda said: said["groups"]["model"]["complex"].append("head.weight")),
        "no pairs of real and imaginary",
    ),
    "a group missing": (meta(lambda said: said.update(groups={})), "holds no model"),
    "a group outside": (
        meta(lambda said: said["groups"].update({"../../x": {"tensors": [], "complex": []}})),
        "does not describe a checkpoint",
    ),
    "a group without a file": (
        meta(lambda said: said["groups"].update({"more": {"tensors": [], "complex": []}})),
        "more.safetensors is missing",
    ),
    "groups that are none": (meta(lambda said: said.update(groups=[1])), "does not describe a checkpoint (groups"),
    "no step": (meta(lambda said: said.pop("step")), "does not describe a checkpoint (step"),
    "a step that is a word": (meta(lambda said: said.update(step="0")), "does not describe a checkpoint (step"),
    "another step": (meta(lambda said: said.update(step=4)), "it holds step 4, its name says another"),
    "a manifest without files": (lambda run: seal(run, dict.clear), "manifest.json names no files"),
    "a manifest without meta.json": (
        lambda run: seal(run, lambda files: files.pop("meta.json")),
        "meta.json is missing",
    ),
    "a manifest without weights": (
        lambda run: seal(run, lambda files: files.pop("model.safetensors")),
        "model.safetensors is missing",
    ),
    "a manifest of /dev/zero": (listed("/dev/zero"), "names '/dev/zero', which is no file of a checkpoint"),
    "a manifest of an absolute path": (listed("/etc/passwd"), "names '/etc/passwd', which is no file"),
    "a manifest of ..": (listed("../../config.json"), "names '../../config.json', which is no file"),
    "a manifest of itself": (listed("manifest.json"), "names 'manifest.json', which is no file"),
    "a manifest of a link out of the folder": (
        lambda run: (_outside(checkpoint(run) / "more"), listed("more", os.path.getsize("/etc/passwd"))(run)),
        "more is a link, not a regular file",
    ),
    "a manifest of a FIFO": (
        lambda run: (listed("more")(run), os.mkfifo(checkpoint(run) / "more")),
        "more is a FIFO, not a regular file",
    ),
    "a size that is a word": (
        lambda run: seal(run, lambda files: files["meta.json"].update(size="1")),
        "does not give the size and sum of meta.json",
    ),
    "files that are a list": (
        lambda run: (checkpoint(run) / manifest.NAME).write_bytes(manifest._seal_body({"files": ["x"], "format": 1})),
        "manifest.json names no files",
    ),
    "checkpoints that are a link": (_moved, "checkpoints is a link"),
    "a model of terabytes": (settings(lambda said: said["model"].update(vocab=2**24, dim=2**17)), "TiB of memory"),
    "a mixer of terabytes": (
        settings(lambda said: said["model"].update(mixer={"kind": "rnn", "state_dim": 2**24})),
        "TiB of memory",
    ),
    "a mixer beyond all sizes": (
        settings(lambda said: said["model"].update(mixer={"kind": "rnn", "state_dim": 10**18})),
        "state_dim must be at most 16,777,216",
    ),
    "a thousand layers of terabytes": (
        settings(lambda said: said["model"].update(depth=1000, dim=2**16, ffn=2**20)),
        "TiB of memory",
    ),
    "more layers than the weights": (
        settings(lambda said: said["model"].update(depth=1000, dim=8)),
        "does not fit the model",
    ),
    "a model that is a list": (settings(lambda said: said.update(model=[1])), "config.json"),
    "a model that is a word": (settings(lambda said: said.update(model="x")), "config.json"),
    "a mixer that is a number": (settings(lambda said: said["model"].update(mixer=3)), "mixer"),
    "no run named": (meta(lambda said: said["meta"].clear()), "belongs to other settings"),
    **{
        f"{name.rpartition('/')[2]}: {odd}": (replaced(name, make), name.rpartition("/")[2])
        for name in FILES
        for odd, make in ODD.items()
    },
}
