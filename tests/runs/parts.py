"""Checkpoints whose tensors lie in parts, as two processes write them, made by one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor

from seqloom.runs import checkpoint, manifest
from tests.runs.saving import groups

META = {"step": 0}
NAMES = [f"shard-0000{number}-model-00001-of-00001.safetensors" for number in (1, 2)]


@contextmanager
def group_of_one() -> Iterator[dist.ProcessGroup]:
    """Torch's process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert dist.group.WORLD is not None
        yield dist.group.WORLD
    finally:
        dist.destroy_process_group()


def save_parts(folder: Path, step: int) -> Path:
    """A checkpoint of what `saving.groups` has, each tensor cut in two; the optimizer's are whole in the first file."""
    first: dict[str, tuple[list[int], Tensor]] = {}
    second: dict[str, tuple[list[int], Tensor]] = {}
    described: dict[str, dict[str, Any]] = {}
    for group, named in groups(step).items():
        shapes = {name: list(tensor.shape) for name, tensor in named.items()}
        described[group] = {"tensors": list(named), "complex": [], "shapes": shapes}
        for name, tensor in named.items():
            half = len(tensor) if group == "optimizer" else len(tensor) // 2
            first[f"{group}.{name}"] = ([0] * tensor.ndim, tensor[:half])
            if half < len(tensor):
                second[f"{group}.{name}"] = ([half] + [0] * (tensor.ndim - 1), tensor[half:])
    with checkpoint.new_step(folder, step) as path:
        for name, parts in zip(NAMES, (first, second), strict=True):
            write_part(path / name, parts)
        content = {"step": step, "groups": described, "meta": {"step": step}}
        (path / "meta.json").write_text(json.dumps(content))
        manifest.seal(path)
    return next(path for path in folder.iterdir() if path.name == f"step_{step:08d}")


def write_part(path: Path, parts: dict[str, tuple[list[int], Tensor]], info: str | None = None) -> None:
    """A file of parts: offset and values of each tensor; `info` in the place of the offsets."""
    offsets = {name: {"saved_offsets": offset} for name, (offset, _) in parts.items()}
    metadata = {"DCP_SHARDING_INFO": json.dumps(offsets) if info is None else info}
    save_file({name: values.clone() for name, (_, values) in parts.items()}, path, metadata)


def reseal(path: Path) -> None:
    """Writes the manifest again over what lies in the folder."""
    (path / manifest.NAME).unlink()
    manifest.seal(path)


def without_values(saved: checkpoint.Checkpoint) -> bool:
    return all(tensor.is_meta for named in saved.tensors.values() for tensor in named.values())


def equal_bits(one: Tensor, other: Tensor) -> bool:
    plain = [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in (one, other)]
    real = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in plain]
    return torch.equal(*(tensor.flatten().view(torch.uint8) if tensor.numel() else tensor for tensor in real))
