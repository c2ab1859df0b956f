"""Named tensors in one safetensors file: everything that a state_dict may hold, restored as it was.

The file format knows neither views, nor two names for one memory, nor complex numbers. So views are made contiguous,
the second name of a shared memory gets its own copy, and complex numbers are stored as pairs of reals (a last axis of
2), whose names the caller keeps.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seqloom.core.files import DOCUMENT, open_regular
from seqloom.runs.manifest import Damaged

SUFFIX = ".safetensors"

_STORED = {
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz),
    *(torch.complex32, torch.complex64, torch.complex128),
}

REAL_PARTS = {torch.float16, torch.float32, torch.float64}
"""the dtypes of real parts for which torch has a complex dtype"""


def storable(group: str, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors as the file holds them (CPU, contiguous, real, no shared memory), and the names of the complex ones.

    Copies only tensors on another device, views and shared memory. ValueError for what is not a dense tensor of a known
    dtype.
    """
    stored: dict[str, Tensor] = {}
    complex_names = []
    written_memory: set[int] = set()
    for name, tensor in tensors.items():
        _refuse_unstorable(f"{group}.{name}", tensor)
        stored_tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        if stored_tensor.is_complex():
            stored_tensor = torch.view_as_real(stored_tensor)
            complex_names.append(name)
        stored_tensor = stored_tensor.contiguous()
        memory = stored_tensor.untyped_storage().data_ptr()
        if stored_tensor.numel() and memory in written_memory:
            stored_tensor = stored_tensor.clone()
        written_memory.add(memory)
        stored[name] = stored_tensor
    return stored, complex_names


def write_tensors(path: Path, stored: Mapping[str, Tensor]) -> None:
    """Writes tensors from `storable`. OSError where writing fails, such as on a full disk."""
    try:
        save_file(dict(stored), path)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if not code:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error


def read_tensors(path: Path, names: Iterable[str], complex_names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of a file that `write_tensors` wrote, in the order of `names`, on the CPU, in memory of their own.

    `Damaged`, in one line, for any other file, and where a tensor is missing or is not a pair of reals.
    """
    stored = _load_tensors(path)
    pairs = set(complex_names)
    tensors: dict[str, Tensor] = {}
    for name in names:
        if name not in stored:
            raise Damaged(f"{path} has no tensor {name!r}")
        copy = stored[name].clone()  # the file is mapped: a copy does not depend on the disk later
        if name in pairs:
            if copy.dtype not in REAL_PARTS or copy.shape[-1:] != (2,):
                raise Damaged(f"{path}: {name!r} is {copy.dtype} {tuple(copy.shape)}, no pairs of real and imaginary")
            copy = torch.view_as_complex(copy)
        tensors[name] = copy
    return tensors


def require_header(path: Path) -> None:
    """`Damaged` for a file whose header would be longer than the file, or than any that we write."""
    with open_regular(path, follow=False) as file:
        header = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size
    if header > min(DOCUMENT, size):
        raise Damaged(f"{path} is not a safetensors file: its header would have {header:,} bytes")


def _load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file as they are stored; `Damaged` for any other file."""
    require_header(path)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise Damaged(f"{path} is not a safetensors file: {error}") from None
    except (KeyError, RuntimeError, TypeError, ValueError) as error:  # types that torch does not know
        raise Damaged(f"{path} cannot be read as tensors: {str(error).splitlines()[0]}") from None


def _refuse_unstorable(name: str, tensor: object) -> None:
    """Raises ValueError for what is not a dense tensor of a dtype that the file format has."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}, not a tensor: put it into the checkpoint's meta")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in _STORED:
        reason = "without values (meta)" if tensor.is_meta else f"{tensor.dtype}, {tensor.layout}"
        raise ValueError(f"{name} is a tensor that a checkpoint cannot hold ({reason}): make it dense and plain first")
