"""The tensors of a checkpoint that several processes write: each writes its parts, and reads those that it needs.

    step_00001234/   shard-00001-model-00001-of-00001.safetensors   the parts of rank 0; one file a rank that has some
                     meta.json                                      the shapes of the whole tensors too
                     manifest.json                                  over all files, written last, by rank 0

A part says where in the whole tensor it begins. Parts follow each other along the first axis. The number of processes
that read is not that of those that wrote: a single one reads whole tensors.

Source: torch's `distributed.checkpoint`, with its reader and writer of safetensors: nothing is pickled on the disk.
"""

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from typing_extensions import override

from seqloom.core.divided import is_divided, part
from seqloom.runs import about, durable, manifest
from seqloom.runs.about import Group
from seqloom.runs.manifest import Damaged
from seqloom.runs.tensors import REAL_PARTS, SUFFIX, require_header, storable

Named = Mapping[str, Mapping[str, Tensor]]
"""tensors by group and name"""


@final
class Parts:
    """What a process has of the tensors of a checkpoint, in the form of the files.

    With `copy` they are copied to the CPU, so that the tensors may change while they are written.
    """

    def __init__(self, tensors: Named, copy: bool) -> None:
        self.stored: dict[str, Tensor] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        memory: set[int] = set()
        for group, named in tensors.items():
            undivided = {name: tensor for name, tensor in named.items() if not is_divided(tensor)}
            stored, complex_names = storable(group, undivided)
            shapes = {name: list(tensor.shape) for name, tensor in named.items()}
            self.groups[group] = {"tensors": list(named), "complex": complex_names, "shapes": shapes}
            for name, tensor in named.items():
                own = stored.get(name, tensor).detach()
                shared = part(own).untyped_storage().data_ptr() in memory  # the file has one name for one memory
                if copy or shared:
                    own = own.to("cpu", copy=True)
                memory.add(part(own).untyped_storage().data_ptr())
                self.stored[f"{group}.{name}"] = own if own.ndim else own.reshape(1)  # a slice has an axis


@final
class _Writer(HuggingFaceStorageWriter):
    """Writes the parts of this process; rank 0 then describes and seals what all have written."""

    def __init__(self, folder: Path, description: bytes) -> None:
        super().__init__(str(folder), save_distributed=True)
        self._folder = folder
        self._description = description

    @override
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        written = super().write_data(plan, planner)
        names = sorted({result.storage_data.relative_path for result in written.wait()})
        entries = [(name, manifest.entry_of(self._folder / name)) for name in names]
        future: Future[list[WriteResult]] = Future()
        future.set_result([WriteResult(MetadataIndex(name), entry["size"], entry) for name, entry in entries])
        return future

    @override
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        durable.write_new(self._folder / about.NAME, self._description)
        entries = {result.index.fqn: result.storage_data for by_rank in results for result in by_rank}
        manifest.seal(self._folder, entries)


def write(folder: Path, step: int, parts: Parts, meta: Mapping[str, Any], group: ProcessGroup) -> None:
    """Writes a checkpoint into a folder that rank 0 makes, until it is sealed: a collective of the group's processes.

    OSError, in each rank, where the system refuses one of them.
    """
    durable.plain(meta, "meta")
    description = json.dumps({"step": step, "groups": parts.groups, "meta": meta}, allow_nan=False)
    try:
        save(parts.stored, storage_writer=_Writer(folder, description.encode()), process_group=group)
    except CheckpointException as error:  # no Exception
        rank, (cause, _) = min(error.failures.items())
        if not isinstance(cause, OSError):
            raise cause from None
        raise OSError(cause.errno or 0, f"{cause.strerror or cause} (rank {rank})") from None


def describe(folder: Path, groups: Mapping[str, Group]) -> dict[str, dict[str, Tensor]]:
    """The whole tensors without values (meta), by group and name.

    `Damaged`, in one line, where the parts in the folder do not make them up.
    """
    stored = _read_metadata(folder).state_dict_metadata
    described: dict[str, dict[str, Tensor]] = {}
    for group, description in groups.items():
        shapes, pairs = description.shapes or {}, set(description.complex)
        described[group] = {}
        for name in description.tensors:
            entry: Any = stored.get(f"{group}.{name}")
            if entry is None or name not in shapes:
                raise Damaged(f"{folder} has no tensor {group}.{name}")
            shape = shapes[name]
            if not _covers(entry.chunks, [*shape, 2] if name in pairs else shape or [1]):
                raise Damaged(f"{folder}: the parts of {group}.{name} do not make up a tensor of shape {tuple(shape)}")
            dtype = entry.properties.dtype
            if name in pairs and dtype not in REAL_PARTS:
                raise Damaged(f"{folder}: {group}.{name} is {dtype}, no pairs of real and imaginary")
            described[group][name] = torch.empty(shape, dtype=dtype, device="meta")
            if name in pairs:
                described[group][name] = described[group][name].to(dtype.to_complex())
    return described


def read(folder: Path, described: Named, like: Named) -> dict[str, dict[str, Tensor]]:
    """The tensors that `describe` gave, with their values: on the CPU, or of a tensor in `like`, which has the same
    name and shape and is divided, this process's part.

    `Damaged`, in one line, where a file changes while it is read.
    """
    tensors: dict[str, dict[str, Tensor]] = {}
    targets: dict[str, Tensor] = {}
    for group, named in described.items():
        tensors[group] = {}
        for name, wanted in named.items():
            model = like.get(group, {}).get(name)
            if model is not None and is_divided(model) and model.shape == wanted.shape:
                tensor = torch.empty_like(model.detach(), dtype=wanted.dtype)
            else:
                tensor = torch.empty(wanted.shape, dtype=wanted.dtype)
            tensors[group][name] = tensor
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            targets[f"{group}.{name}"] = real if real.ndim else real.view(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that each process reads for itself
            load(targets, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    except CheckpointException as error:  # no Exception
        _, (cause, _) = min(error.failures.items())
        if not isinstance(cause, Exception):
            raise cause from None
        raise Damaged(f"{folder} cannot be read as tensors: {_first_line(cause)}") from None
    return tensors


def _read_metadata(folder: Path) -> Metadata:
    """Which parts the files have. `Damaged` for a file that is not of safetensors, or that the manifest has not."""
    names = manifest.sizes(folder)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name not in names:  # torch reads every file of that name
            raise Damaged(f"{folder}: {path.name} is a file that {manifest.NAME} does not name")
        require_header(path)
    try:
        return HuggingFaceStorageReader(str(folder)).read_metadata()
    except Exception as error:  # whatever the JSON in a header makes torch raise
        raise Damaged(f"{folder} cannot be read as tensors: {_first_line(error)}") from None


def _covers(chunks: list[ChunkStorageMetadata], shape: list[int]) -> bool:
    """Whether parts follow each other along the first axis from the first to the last row of a tensor."""
    end = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.offsets[0]):
        if 0 in chunk.sizes:
            continue
        if [*chunk.offsets] != [end, *[0] * (len(shape) - 1)] or [*chunk.sizes[1:]] != shape[1:]:
            return False
        end += chunk.sizes[0]
    return math.prod(shape) == 0 or end == shape[0]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
