"""Files that are mapped into memory one after the other, so that they are read as one array.

    reserve Σ sizes of address space; map each file over its part of it (mmap with MAP_FIXED)

No byte is copied, and the memory is that of the system's file cache, which all processes share. Where the system cannot
do this (Windows), several files are copied into one array.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from seqloom.core.files import open_regular

GRANULE = mmap.ALLOCATIONGRANULARITY
"""bytes of which the size of every file but the last must be a multiple"""
_FIXED = 0x10
"""MAP_FIXED of Linux and macOS, which Python does not name"""
_CAN_PLACE = os.name == "posix" and sys.maxsize > 2**32


def map_files(files: Sequence[tuple[Path, int]]) -> npt.NDArray[np.uint8]:
    """The first bytes of each file, as many as the number next to it, as one array that cannot be written."""
    files = [(path, size) for path, size in files if size]
    assert all(size % GRANULE == 0 for _, size in files[:-1])
    if not files:
        return np.empty(0, np.uint8)
    if len(files) == 1 or not _CAN_PLACE:
        parts = [np.memmap(path, np.uint8, "r", shape=(size,)) for path, size in files]
        array = np.asarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)
        array.flags.writeable = False
        return array
    region = mmap.mmap(-1, sum(size for _, size in files), flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    array = np.frombuffer(region, np.uint8)  # holds the region, whose end unmaps the files too
    address = array.ctypes.data
    for path, size in files:
        _place(path, size, address)
        address += size
    return array


def _place(path: Path, size: int, address: int) -> None:
    """Maps the first bytes of a file at an address of this process that it has reserved."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_int64]
    with open_regular(path) as file:
        placed = call(address, size, mmap.PROT_READ, mmap.MAP_SHARED | _FIXED, file.fileno(), 0)
    if placed != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
